"""Records how a real Slurm reports the GPUs of jobs, and what each job was really given.

    python tests/recorded/gpus/record.py bookworm|trixie|sid [ROOT]

starts that Debian release's Slurm in a root of its own (see ``tests/recorded/rest/record.py``),
once with ``AccountingStorageTRES=gres/gpu`` and once without, submits ``JOBS``, and writes
``<release>/<tracked|untracked>/<what>``. ``given.txt`` is the truth: slurmd's own prolog notes on
each node which GPUs (``SLURM_JOB_GPUS``) a job has. Needs root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.recorded.rest import record as rest

from corral.slurm.text import QUEUE_COUNTED, QUEUE_TRES, show_history

HERE = Path(__file__).parent
NODES = 16
CONF = (
    rest.CONF_HEAD
    + """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={host}
DefMemPerCPU=10
SlurmdParameters=config_overrides
GresTypes=gpu,shard
ReturnToService=2
MinJobAge=3600
Prolog=/prolog.sh
PrologFlags=Alloc
SchedulerParameters=bf_interval=1,sched_min_interval=0,default_queue_depth=1000,batch_sched_delay=0
{tres}
NodeName=node[0-14] NodeHostname={host} NodeAddr=10.9.9.1 Port=[26900-26914] Sockets=2 \
CoresPerSocket=8 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:a100:4,gpu:h100:4
NodeName=node15 NodeHostname={host} NodeAddr=10.9.9.1 Port=26915 Sockets=2 \
CoresPerSocket=8 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:h100:1,shard:4
PartitionName=main Nodes=node[0-14] Default=YES MaxTime=1-00:00:00 State=UP
PartitionName=long Nodes=node[0-14] MaxTime=INFINITE State=UP
PartitionName=small Nodes=node15 MaxTime=INFINITE State=UP
"""
)
JOBS: dict[str, str] = {
    "none": "-n2",
    "gres-none": "-n1 --gres=none",
    "gres": "-N1 --gres=gpu:2",
    "gres-bare": "-N1 --gres=gpu",
    "gres-nodes": "-N2 --gres=gpu:2",
    "gres-typed": "-N2 --gres=gpu:h100:1",
    "gres-two-types": "-N2 --gres=gpu:a100:2,gpu:h100:1",
    "gres-range": "-N2-3 --gres=gpu:1",
    "job": "--gpus=3",
    "job-nodes": "-N2 --gpus=3",
    "job-typed": "-N2 --gpus=h100:2",
    "job-two-types": "--gpus=a100:1,h100:2",
    "job-and-node": "--gpus=4 --gpus-per-node=2",
    "job-and-task": "--gpus=4 --gpus-per-task=2",
    "node": "-N2 --gpus-per-node=2",
    "node-typed": "-N2 --gpus-per-node=a100:1",
    "node-two-types": "-N1 --gpus-per-node=a100:1,h100:1",
    "node-many-tasks": "-n3 --gpus-per-node=1",
    "task": "-n3 --gpus-per-task=1",
    "task-nodes": "-N2 --ntasks-per-node=2 --gpus-per-task=1",
    "task-typed": "-n2 --gpus-per-task=a100:2",
    "task-two-types": "-n2 --gpus-per-task=a100:1,h100:1",
    "socket": "-N1 -n2 --sockets-per-node=2 --gpus-per-socket=1",
    "socket-nodes": "-N2 -n2 --sockets-per-node=1 --gpus-per-socket=2",
    "socket-typed": "-N2 --sockets-per-node=1 --gpus-per-socket=a100:1",
    "tasks-of-gpu": "-n4 --ntasks-per-gpu=2",
    "tasks-of-gpus": "--gpus=2 --ntasks-per-gpu=2",
    "tasks-of-gpu-nodes": "-N2 -n4 --ntasks-per-gpu=1",
    "tres-task": "-n2 --tres-per-task=gres/gpu:1",
    "shard": "-p small -n1 --gres=shard:2",
    "array": "--array=0-3%2 --gpus=1",
    "array-nodes": "--array=1-2 -N2 --gres=gpu:1",
    "het": "-n1 --gpus=1 : -n2 --gpus-per-task=1 : -n1",
    "infinite": "-p long --time=UNLIMITED --gpus=1",
    "exclusive": "-N1 --exclusive --gres=gpu:1",
    "exclusive-none": "-N1 --exclusive",
    "exclusive-job": "-N1 --exclusive --gpus=2",
}
"""sbatch's options by the name of the job; each is submitted again as ``wait-NAME``, to wait."""
BROAD = {"wait-node-range": "-N2-4 --gpus-per-node=1", "wait-task-many": "-n40 --gpus-per-task=1"}
FIELDS = (
    *("job_id", "array_job_id", "array_task_id", "array_task_string", "het_job_id"),
    *("het_job_offset", "het_job_id_set", "name", "user_name", "job_state", "state_reason"),
    *(
        "partition",
        "node_count",
        "max_nodes",
        "nodes",
        "tasks",
        "cpus",
        "time_limit",
        "gres_detail",
    ),
    *("tres_req_str", "tres_alloc_str", "tres_per_job", "tres_per_node", "tres_per_socket"),
    *(
        "tres_per_task",
        "tres_bind",
        "tres_freq",
        "sockets_per_node",
        "sockets_per_board",
        "boards_per_node",
    ),
    *("ntasks_per_node", "tasks_per_node", "ntasks_per_tres", "tasks_per_tres", "priority"),
    *("exclusive", "shared", "exit_code", "start_time", "max_cpus", "minimum_cpus_per_node"),
    *("tres", "state", "time", "array", "het", "allocation_nodes", "user", "cluster"),
)
"""What is kept of a record: all that tells of GPUs, and what it takes to read the job."""

INSIDE = (
    f"set -eux{rest.NETWORK}"
    + r"""
id kim >/dev/null 2>&1 || { useradd -u 4001 kim; useradd -r restd; }
mkdir -p /run/munge /run/mysqld /var/lib/recorded /etc/slurm /etc/munge
mkdir -p /var/spool/slurmctld /var/spool/slurmd
rm -rf /var/spool/slurmctld/* /var/spool/slurmd/* /var/lib/recorded/* /given /told
: > /given; : > /told; chmod 666 /told
chown mysql: /run/mysqld /var/lib/recorded
"""
    + rest.KEYS
    + r"""for f in slurmctld slurmdbd; do touch /var/log/$f.log; chown slurm: /var/log/$f.log; done
n=0; while [ $n -lt $NODES ]; do mkdir -p /var/spool/slurmd/node$n; n=$((n+1)); done
cat > /etc/slurm/gres.conf <<END
NodeName=node[0-14] Name=gpu Type=a100 File=/gpu[0-3] Cores=0-7
NodeName=node[0-14] Name=gpu Type=h100 File=/gpu[4-7] Cores=8-15
NodeName=node15 Name=gpu Type=h100 File=/gpu0
NodeName=node15 Name=shard Count=4
END
for n in 0 1 2 3 4 5 6 7; do [ -e /gpu$n ] || mknod /gpu$n c 1 3; done
cat > /prolog.sh <<'END'
#!/bin/sh
echo "$SLURM_JOB_ID $SLURMD_NODENAME ${SLURM_JOB_GPUS:-}" >> /given
END
chmod 755 /prolog.sh
cat > /etc/slurm/slurmdbd.conf <<END
AuthType=auth/munge
DbdHost=$host
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
LogFile=/var/log/slurmdbd.log
PidFile=/run/slurmdbd.pid
END
chown slurm: /etc/slurm/slurmdbd.conf; chmod 600 /etc/slurm/slurmdbd.conf
"""
    + rest.NO_CGROUPS
    + r"""data=--datadir=/var/lib/recorded
mariadb-install-db --no-defaults $data --user=mysql --skip-test-db >/dev/null 2>&1
mariadbd --no-defaults $data --user=mysql --skip-networking \
  --pid-file=/run/mysqld/mysqld.pid \
  --socket=/run/mysqld/mysqld.sock >/var/log/mariadb.log 2>&1 &
sql() { mariadb --no-defaults --socket=/run/mysqld/mysqld.sock -e "$1"; }
i=0; until sql 'select 1'; do i=$((i+1)); sleep 0.2; [ $i -lt 200 ]; done
sql "create database slurm_acct_db; create user slurm@localhost identified via unix_socket;
grant all on slurm_acct_db.* to slurm@localhost"
setpriv --reuid=munge --regid=munge --clear-groups munged --foreground >/dev/null 2>&1 &
sleep 1
MYSQL_UNIX_PORT=/run/mysqld/mysqld.sock slurmdbd -D >/dev/null 2>&1 &
i=0; until sacctmgr -n list cluster >/dev/null 2>&1; do i=$((i+1)); sleep 0.3; [ $i -lt 100 ]; done
sacctmgr -i add cluster recorded >/dev/null 2>&1 || true
slurmctld -D >/dev/null 2>&1 &
sleep 2
n=0; while [ $n -lt $NODES ]; do slurmd -D -N node$n >/dev/null 2>&1 & n=$((n+1)); done
i=0; until [ "$(sinfo -h -t idle -o %D | awk '{ s += $1 } END { print s }')" = $NODES ]; do
  i=$((i+1)); sleep 0.5
  [ $i -lt 120 ] || { sinfo >&2; for f in /var/log/slurm*.log; do tail -n 5 $f >&2; done; exit 1; }
done
flags="openapi/slurmctld,openapi/slurmdbd"
[ -z "$OLD" ] || flags="openapi/v0.0.38,openapi/dbv0.0.38"
SLURM_JWT=daemon setpriv --reuid=restd --regid=restd --clear-groups \
  slurmrestd -a rest_auth/jwt -s $flags 127.0.0.1:6820 >/var/log/slurmrestd.log 2>&1 &
as() { u=$1; shift; (cd /tmp; setpriv --reuid=$u --regid=$u --clear-groups "$@") }
sh /jobs.sh > /submitted 2>&1
i=0; while squeue -h -t pd,cf -o '%r' | grep -qvE 'BeginTime|JobArrayTaskLimit'; do
  i=$((i+1)); sleep 0.5; [ $i -lt 60 ] || break
done
sleep 6
squeue -h -o '%i %T %r %j' > /left
scontrol show job -d -o > /scontrol.txt
squeue --all --states=all --json > /squeue.json 2>/dev/null || echo '{}' > /squeue.json
sh /metrics.sh > /metrics.txt 2>/metrics.err || true
sh /tres.sh > /tres.txt 2>/tres.err || true
sh /history.sh > /sacct.txt 2>/sacct.err || true
echo token kim "$(scontrol token username=kim lifespan=600 | sed 's/SLURM_JWT=//')"
"""
)
ASK = r"""
import json, sys, urllib.request, time
token = sys.argv[1]
def ask(path):
    request = urllib.request.Request("http://127.0.0.1:6820" + path,
        headers={"X-SLURM-USER-NAME": "kim", "X-SLURM-USER-TOKEN": token})
    with urllib.request.urlopen(request, timeout=20) as answer: return json.loads(answer.read())
for _ in range(60):
    try: ask("/openapi"); break
    except OSError: time.sleep(0.5)
found = {}
for n in range(36, 46):
    v = "v0.0.%d" % n
    try: found["jobs-" + v] = ask("/slurm/%s/jobs" % v)
    except OSError: continue
    try: found["past-" + v] = ask("/slurmdb/%s/jobs" % v)
    except OSError as error: print(v, error, file=sys.stderr)
print("@@" + json.dumps(found))
"""


SLEEP = """\
#!/bin/sh
echo "$SLURM_JOB_ID $SLURMD_NODENAME ${SLURM_JOB_GPUS:-}" >> /told
sleep 900
"""


def jobs_script() -> str:
    """The submissions; each job is told by its name."""
    lines: list[str] = []

    def send(name: str, options: str, more: str) -> None:
        each = [f"-J {name} {more} {part}" for part in options.split(" : ")]
        lines.append(
            f"as kim sbatch --parsable -o /dev/null {' : '.join(each)} /tmp/sleep.sh "
            f"|| echo REFUSED {name}"
        )

    lines.append(
        'as() { u=$1; shift; (cd /tmp; setpriv --reuid=$u --regid=$u --clear-groups "$@") }'
    )
    lines.append(f"cat > /tmp/sleep.sh <<'END'\n{SLEEP}END\nchmod 755 /tmp/sleep.sh")
    for name, options in JOBS.items():
        send(name, options, "--begin=now" if " : " in options else "")
        send(f"wait-{name}", options, "--begin=now+1hour")
    for name, options in BROAD.items():
        send(name, options, "--begin=now+1hour")
    lines.append(
        "as kim sbatch --parsable -o /dev/null -J ended --gpus=2 --wrap 'exit 3' >/dev/null"
    )
    return "\n".join(lines) + "\n"


def record(root: Path, tracked: bool) -> dict[str, Any]:
    """Start Slurm in the root, run the jobs, ask everybody."""
    commands = (QUEUE_TRES, QUEUE_COUNTED, show_history("|"))
    quoted = [" ".join(f"'{word}'" for word in words) for words in commands]
    programs = {
        "record.sh": INSIDE,
        "ask.py": ASK,
        "jobs.sh": jobs_script(),
        "tres.sh": f"{quoted[0]}\n",
        "metrics.sh": f"{quoted[1]}\n",
        "history.sh": f"SLURM_TIME_FORMAT=%s {quoted[2]} --allusers -S now-1hours\n",
    }
    tres = "AccountingStorageTRES=gres/gpu" if tracked else ""
    conf = CONF.format(host=os.uname().nodename, tres=tres)
    answers = rest.asked(root, conf, programs, {"NODES": str(NODES)})
    answers["squeue"] = json.loads((root / "squeue.json").read_text())
    return answers


def kept(body: dict[str, Any]) -> dict[str, Any]:
    """An answer with what tells of GPUs alone, and no name of the machine."""
    jobs = [{k: v for k, v in job.items() if k in FIELDS} for job in body.get("jobs", [])]
    plugin = body.get("meta", {}).get("plugin", {})
    return {"meta": {"plugin": plugin}, "jobs": jobs}


def given(prologs: str, scripts: str) -> str:
    """GPUs by job and node: of the job's own environment on its first node, else its prolog's.

    The prolog's variable holds one type only where a job has two (24.11.5).
    """
    found = {}
    for line in (prologs + scripts).splitlines():
        job, node, gpus = line.split(" ")
        found[int(job), node] = gpus
    return "".join(f"{job} {node} {gpus}\n" for (job, node), gpus in sorted(found.items()))


def main(suite: str, kept_root: str = "") -> None:
    """Record one Debian release's Slurm, with and without gres/gpu as a tracked resource."""
    root = Path(kept_root or f"/tmp/corral-record-gpus-{suite}")
    if not (root / "usr/sbin").exists():
        rest.PACKAGES = (*rest.PACKAGES, "slurmdbd", "mariadb-server")
        rest.make_root(suite, root)
    admin = f"--admindir={root}/var/lib/dpkg"
    version = subprocess.run(
        ["dpkg-query", admin, "-W", "-f=${Version}", "slurmctld"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    release = ".".join(version.split("-")[0].split(".")[:2])
    host = os.uname().nodename
    for mode in ("untracked", "tracked"):
        answers = record(root, mode == "tracked")
        folder = HERE / release / mode
        folder.mkdir(parents=True, exist_ok=True)
        for what, body in answers.items():
            text = json.dumps(kept(body), separators=(",", ":")).replace('},{"', '},\n{"')
            (folder / f"{what}.json").write_text(f"{text}\n")
        for name in ("scontrol", "tres", "metrics", "sacct"):
            (folder / f"{name}.txt").write_text(
                (root / f"{name}.txt").read_text().replace(host, "recorder")
            )
        (folder / "given.txt").write_text(
            given((root / "given").read_text(), (root / "told").read_text())
        )
        print(f"{folder.relative_to(HERE)}: {', '.join(answers)}")
        for name in ("submitted", "left"):
            print((root / name).read_text())
    if not kept_root:
        shutil.rmtree(root)


if __name__ == "__main__":
    main(*sys.argv[1:])
