"""Records what a real slurmrestd answers: one folder per Slurm release and API version.

    python tests/recorded/rest/record.py bookworm|trixie|sid [ROOT]

makes a root of that Debian release with Slurm's packages (mmdebstrap; ROOT keeps it for the next
time), starts munged, slurmctld, three emulated nodes and slurmrestd in it, in a network of
its own, runs jobs, and writes ``<release>/<api>/<what>.json``. Needs root. A new release is a new
folder: the tests take every folder there is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corral.providers.containers import archive

HERE = Path(__file__).parent
PACKAGES = (
    *("slurmctld", "slurmd", "slurmrestd", "slurm-client", "munge", "perl", "iproute2", "procps"),
    *("slurm-wlm-jwt-plugin", "slurm-wlm-basic-plugins"),
)

CONF_HEAD = """\
ClusterName=recorded
SlurmctldHost={host}(10.9.9.1)
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/var/spool/slurmctld/jwt_hs256.key
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
"""
"""Daemons and logs in the root, and the address of ``NETWORK``."""
CONF = (
    CONF_HEAD
    + """\
SlurmdParameters=config_overrides
GresTypes=gpu
ReturnToService=2
MinJobAge=3600
NodeName=node[0-2] NodeHostname={host} NodeAddr=10.9.9.1 Port=[26900-26902] CPUs=4 \
RealMemory=4000 Gres=gpu:h200:2 Feature=fast,ib
NodeName=gone NodeHostname=gone NodeAddr=10.9.9.9 Port=26999 CPUs=4 RealMemory=4000 Gres=gpu:h200:2
PartitionName=main Nodes=node[0-2] Default=YES MaxTime=1-00:00:00 State=UP
PartitionName=long Nodes=node[0-1],gone MaxTime=INFINITE State=UP
"""
)

NETWORK = r"""
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
ip link set lo up
# Slurm resolves names with AI_ADDRCONFIG: without an address that is not loopback nothing resolves.
ip link add v0 type veth peer name v1; ip addr add 10.9.9.1/24 dev v0
ip link set v0 up; ip link set v1 up
host=$(hostname)
printf "127.0.0.1 localhost\n" > /etc/hosts; echo "10.9.9.1 $host" >> /etc/hosts
"""
"""A network of the namespace's own, with an address, and names by it."""
KEYS = r"""
chown munge: /run/munge /etc/munge /var/log/munge /var/lib/munge
head -c 1024 /dev/urandom > /etc/munge/munge.key
chmod 400 /etc/munge/munge.key; chown munge: /etc/munge/munge.key
head -c 32 /dev/urandom > /var/spool/slurmctld/jwt_hs256.key
chown -R slurm: /var/spool/slurmctld; chmod 600 /var/spool/slurmctld/jwt_hs256.key
"""
"""Keys of munge and of tokens."""
NO_CGROUPS = r"""
# 22.05 knows no such plugin, and wants none with proctrack/linuxproc.
rm -f /etc/slurm/cgroup.conf
[ -n "$OLD" ] || echo 'CgroupPlugin=disabled' > /etc/slurm/cgroup.conf
"""

INSIDE = (
    f"set -eu{NETWORK}"
    + r"""
id kim >/dev/null 2>&1 || { useradd -u 4001 kim; useradd -u 4002 ada; useradd -r restd; }
mkdir -p /run/munge /var/spool/slurmctld /var/spool/slurmd /etc/slurm /etc/munge
rm -rf /var/spool/slurmctld/* /var/spool/slurmd/*
"""
    + KEYS
    + r"""touch /var/log/slurmctld.log; chown slurm: /var/log/slurmctld.log
for n in 0 1 2; do mkdir -p /var/spool/slurmd/node$n; done
cat > /etc/slurm/gres.conf <<END
NodeName=node[0-2] Name=gpu Type=h200 File=/gpu[0-1]
NodeName=gone Name=gpu Type=h200 File=/gpu[0-1]
END
[ -e /gpu0 ] || { mknod /gpu0 c 1 3; mknod /gpu1 c 1 3; }
"""
    + NO_CGROUPS
    + r"""setpriv --reuid=munge --regid=munge --clear-groups munged --foreground >/dev/null 2>&1 &
sleep 1
slurmctld -D >/dev/null 2>&1 &
for n in 0 1 2; do slurmd -D -N node$n >/dev/null 2>&1 & done
i=0; until sinfo -h -p main -t idle -o %D | grep -q 3; do
  i=$((i+1)); sleep 0.5
  [ $i -lt 120 ] || { for f in /var/log/slurm*.log; do tail -n 5 $f >&2; done; exit 1; }
done
SLURM_JWT=daemon setpriv --reuid=restd --regid=restd --clear-groups \
  slurmrestd -a rest_auth/jwt $RESTFLAGS 127.0.0.1:6820 >/var/log/slurmrestd.log 2>&1 &
scontrol update nodename=node2 state=drain 'reason=<b>fan</b> "broken" & loud'
as() { u=$1; shift; (cd /tmp; setpriv --reuid=$u --regid=$u --clear-groups "$@") }
as kim sbatch -n1 --gres=gpu:1 --mem=100 -o /tmp/one-%j.log --wrap 'sleep 600' >/dev/null
as ada sbatch -N2 --gres=gpu:h200:1 --mem=200 -t 30 -J '<script>alert(1)</script>' \
  -o /tmp/two.log --wrap 'srun sleep 600' >/dev/null
as kim sbatch -n1 --mem=1 -o /tmp/three.log --wrap 'exit 3' >/dev/null
as kim sbatch -n1 --mem=1 -o /tmp/four.log --wrap 'true' >/dev/null
as kim sbatch --hold -N3 --comment 'held by hand' -o /tmp/five.log --wrap 'true' >/dev/null
as kim sbatch --array=1-30%2 --mem=10 -p long --gres=gpu:2 -o /tmp/six.log \
  --wrap 'sleep 600' >/dev/null
sleep 4
echo token kim "$(scontrol token username=kim lifespan=600 | sed 's/SLURM_JWT=//')"
"""
)

ASK = r"""
import json, sys, urllib.request, time
token = sys.argv[1]
def ask(path, method="GET", body=None, token=token):
    request = urllib.request.Request("http://127.0.0.1:6820" + path, method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"X-SLURM-USER-NAME": "kim", "X-SLURM-USER-TOKEN": token,
                 "Content-Type": "application/json"})
    try:
        print(method, path, time.strftime("%X"), file=sys.stderr)
        with urllib.request.urlopen(request, timeout=8) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    except OSError as error: status, text = 0, str(error)
    try: return {"status": status, "body": json.loads(text)}
    except ValueError: return {"status": status, "body": text}
for _ in range(60):
    try:
        ask("/openapi"); break
    except OSError: time.sleep(0.5)
found = {}
for n in range(36, 46):
    v = "v0.0.%d" % n
    if ask("/slurm/%s/ping" % v)["status"] == 404: continue
    base = "/slurm/%s" % v
    kept = {"ping": ask(base + "/ping"), "nodes": ask(base + "/nodes"),
            "partitions": ask(base + "/partitions"), "jobs": ask(base + "/jobs"),
            "job": ask(base + "/job/2"), "no-job": ask(base + "/job/999999")}
    script = "#!/bin/sh\nsleep 300\n"
    job = {"name": "by rest", "current_working_directory": "/tmp", "standard_output": "/tmp/r.log",
           "partition": "main"}
    job["environment"] = {"PATH": "/bin:/usr/bin"} if n < 39 else ["PATH=/bin:/usr/bin"]
    whole = {"job": job, "script": script} if n < 41 else {"job": {**job, "script": script}}
    kept["submit"] = ask(base + "/job/submit", "POST", whole)
    answer = kept["submit"]["body"]
    number = answer.get("job_id") if isinstance(answer, dict) else None
    if number:
        kept["cancel"] = ask(base + "/job/%s" % number, "DELETE")
    kept["refused"] = ask(base + "/job/submit", "POST",
        {**whole, "job": {**whole["job"], "partition": "nowhere"}})
    found[v] = kept
# Last: slurmctld 26.05.5 without accounting never answers again once a user cancels another's job.
for v, kept in found.items():
    kept["bad-token"] = ask("/slurm/%s/nodes" % v, token="a.b.c")
for v, kept in found.items():
    kept["cancel-others"] = ask("/slurm/%s/job/2" % v, "DELETE")
    if not kept["cancel-others"]["status"]: del kept["cancel-others"]; break
print("@@" + json.dumps(found))
"""


def make_root(suite: str, root: Path, more: tuple[str, ...] = ()) -> None:
    """Unpack a Debian root with Slurm, and with more packages."""
    host = archive.host_release()
    sources = archive.for_suite(
        archive.host_sources(), host["VERSION_CODENAME"], suite, {"": ("main",)}
    )
    main = next(s for s in sources if "security" not in s.line() and "-updates" not in s.line())
    subprocess.run(
        [
            *("mmdebstrap", "--variant=apt", "--mode=root", "--format=directory"),
            f"--include={','.join((*PACKAGES, *more))}",
            '--aptopt=Acquire::Check-Valid-Until "false"',
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            *(suite, str(root), main.line()),
        ],
        check=True,
    )


def asked(
    root: Path, conf: str, programs: Mapping[str, str], env: Mapping[str, str]
) -> dict[str, Any]:
    """Start Slurm in the root by ``record.sh`` and give what ``ask.py`` prints.

    Args:
        root: a Debian root.
        conf: its slurm.conf.
        programs: files by name, ``record.sh`` and ``ask.py`` among them.
        env: variables of ``record.sh``, besides ``OLD``: not empty with Slurm 22.05.
    """
    (root / "etc/slurm").mkdir(exist_ok=True)
    (root / "etc/slurm/slurm.conf").write_text(conf)
    for name, text in programs.items():
        (root / name).write_text(text)
    steps = (
        f"mount -t proc proc {root}/proc; mount --rbind /dev {root}/dev; "
        f"mount --rbind /sys {root}/sys; out=$(chroot {root} sh /record.sh) || exit 1; "
        f'token=${{out##*token kim }}; {sys.executable} {root}/ask.py "$token" || '
        f"{{ tail -n 9 {root}/var/log/slurmrestd.log >&2; exit 1; }}"
    )
    # A dead first process takes the whole namespace with it: nothing is left running.
    flags = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--ipc"]
    done = subprocess.run(
        [*flags, "sh", "-c", steps],
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "OLD": "old" if is_old(root) else "", **env},
    )
    if "@@" not in done.stdout:
        raise SystemExit(f"{done.stdout[-500:]}\n{done.stderr[-3000:]}")
    print(done.stderr[-2000:])
    answers: dict[str, Any] = json.loads(done.stdout.rpartition("@@")[2])
    return answers


def is_old(root: Path) -> bool:
    """Whether the root is Debian 12, with Slurm 22.05."""
    return (root / "etc/debian_version").read_text().startswith("12")


def record(root: Path) -> dict[str, dict[str, object]]:
    """Start Slurm in the root and ask it everything."""
    # Without slurmdbd, openapi/slurmdbd would end slurmrestd; 22.05 names its plugins otherwise.
    flags = "-s openapi/v0.0.38" if is_old(root) else "-s openapi/slurmctld"
    programs = {"record.sh": INSIDE, "ask.py": ASK}
    return asked(root, CONF.format(host=os.uname().nodename), programs, {"RESTFLAGS": flags})


def main(suite: str, kept: str = "") -> None:
    """Record one Debian release's Slurm."""
    root = Path(kept or f"/tmp/corral-record-{suite}")
    if not (root / "usr/sbin").exists():
        make_root(suite, root)
    answers = record(root)
    version = subprocess.run(
        ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f=${Version}", "slurmctld"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if not kept:
        shutil.rmtree(root)
    release = ".".join(version.split("-")[0].split(".")[:2])
    for api, kinds in answers.items():
        folder = HERE / release / api
        folder.mkdir(parents=True, exist_ok=True)
        for what, answer in kinds.items():
            text = json.dumps(answer, separators=(",", ":")).replace('},{"', '},\n{"')
            (folder / f"{what}.json").write_text(f"{text}\n")
        print(f"{folder.relative_to(HERE)}: {', '.join(kinds)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
