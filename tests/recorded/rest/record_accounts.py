"""Records what slurmrestd reports of accounts, QOS, shares, reservations, licences and sdiag.

    python tests/recorded/rest/record_accounts.py bookworm|trixie|sid [ROOT]

as ``record.py`` does, with slurmdbd and MariaDB in the root: ``<release>/<api>/associations.json``
and so on. Each limit has a different number, so that a test sees which field is which limit.
Needs root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.recorded.rest.record import (
    CONF_HEAD,
    HERE,
    KEYS,
    NETWORK,
    NO_CGROUPS,
    asked,
    is_old,
    make_root,
)

PACKAGES = ("slurmdbd", "mariadb-server", "slurm-wlm-mysql-plugin")
CONF = (
    CONF_HEAD
    + """\
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=3600
Licenses=matlab:10,fluent:4
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
PriorityType=priority/multifactor
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=10.9.9.1
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
GresTypes=gpu
PreemptType=preempt/qos
PreemptMode=CANCEL
NodeName=node[0-2] NodeHostname={host} NodeAddr=10.9.9.1 Port=[26900-26902] CPUs=4 \
RealMemory=4000 Gres=gpu:h200:2
PartitionName=main Nodes=node[0-2] Default=YES MaxTime=1-00:00:00 State=UP
"""
)
INSIDE = (
    f"set -eu{NETWORK}"
    + r"""
id kim >/dev/null 2>&1 || { useradd -u 4001 kim; useradd -u 4002 ada; useradd -r restd; }
mkdir -p /run/munge /var/spool/slurmctld /var/spool/slurmd /etc/slurm /etc/munge
mkdir -p /run/mysqld /run/mariadbd
rm -rf /var/spool/slurmctld/* /var/spool/slurmd/* /var/lib/mysql/* /var/lib/mariadb/*
"""
    + KEYS
    + r"""touch /var/log/slurmctld.log; chown slurm: /var/log/slurmctld.log
for n in 0 1 2; do mkdir -p /var/spool/slurmd/node$n; done
echo 'NodeName=node[0-2] Name=gpu Type=h200 File=/gpu[0-1]' > /etc/slurm/gres.conf
[ -e /gpu0 ] || { mknod /gpu0 c 1 3; mknod /gpu1 c 1 3; }
"""
    + NO_CGROUPS
    + r"""chown mysql: /run/mysqld /run/mariadbd  # the second from MariaDB 12 on
mariadb-install-db --user=mysql >/dev/null 2>&1
mariadbd --user=mysql --skip-networking >/dev/null 2>&1 &
i=0; until mariadb-admin ping >/dev/null 2>&1; do i=$((i+1)); sleep 0.5; [ $i -lt 100 ]; done
mariadb -e "create database slurm_acct_db; create user slurm@localhost identified by 'x';
  grant all on slurm_acct_db.* to slurm@localhost"
cat > /etc/slurm/slurmdbd.conf <<END
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/var/spool/slurmctld/jwt_hs256.key
DbdHost=10.9.9.1
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
LogFile=/var/log/slurmdbd.log
PidFile=/run/slurmdbd.pid
END
sed -i "s/^DbdHost.*/DbdHost=$(hostname)/" /etc/slurm/slurmdbd.conf
chown slurm: /etc/slurm/slurmdbd.conf; chmod 600 /etc/slurm/slurmdbd.conf
touch /var/log/slurmdbd.log; chown slurm: /var/log/slurmdbd.log
setpriv --reuid=munge --regid=munge --clear-groups munged --foreground >/dev/null 2>&1 &
sleep 1
setpriv --reuid=slurm --regid=slurm --clear-groups slurmdbd -D >/dev/null 2>&1 &
m="sacctmgr -i -Q"
i=0; until $m show cluster >/dev/null 2>&1; do
  i=$((i+1)); sleep 0.5; [ $i -lt 100 ] || { tail -n 20 /var/log/slurmdbd.log >&2; exit 1; }
done
$m add cluster recorded
slurmctld -D >/dev/null 2>&1 &
for n in 0 1 2; do slurmd -D -N node$n >/dev/null 2>&1 & done
i=0; until sinfo -h -p main -t idle -o %D 2>/dev/null | grep -q 3; do
  i=$((i+1)); sleep 0.5
  [ $i -lt 120 ] || { for f in /var/log/slurm*.log; do tail -n 9 $f >&2; done; exit 1; }
done
i=0; until sacctmgr -n show tres 2>/dev/null | grep -q gpu; do
  i=$((i+1)); sleep 0.5; [ $i -lt 60 ]
done
$m add qos low set Priority=10 Description=spare
$m add qos high set Priority=1000 Preempt=low PreemptMode=cancel GraceTime=30 UsageFactor=2 \
  GrpTRES=cpu=51,gres/gpu=52 GrpTRESMins=cpu=5300 GrpTRESRunMins=cpu=5400 GrpJobs=55 \
  GrpSubmitJobs=56 GrpWall=57 MaxJobsPerUser=58 MaxJobsPerAccount=59 MaxSubmitJobsPerUser=60 \
  MaxSubmitJobsPerAccount=61 MaxTRESPerUser=cpu=62,gres/gpu=63 MaxTRESPerAccount=cpu=64 \
  MaxTRESPerJob=cpu=65 MaxTRESPerNode=cpu=66 MaxTRESMinsPerJob=cpu=6700 MaxWall=68 \
  MinTRESPerJob=cpu=1 Flags=DenyOnLimit
$m add account research Description='all research' Organization=lab set Fairshare=7 \
  GrpTRES=gres/gpu=40 MaxJobs=30
$m add account vision parent=research set Fairshare=3 GrpTRES=cpu=31,gres/gpu=32 GrpJobs=33
$m add account idle parent=research Fairshare=parent
$m add user kim account=vision Fairshare=5 GrpTRES=cpu=11,gres/gpu=12 GrpTRESMins=cpu=1300 \
  GrpTRESRunMins=cpu=1400 GrpJobs=15 GrpSubmitJobs=16 GrpWall=17 MaxJobs=18 MaxSubmitJobs=19 \
  MaxTRESPerJob=cpu=20 MaxTRESPerNode=cpu=21 MaxTRESMinsPerJob=cpu=2200 MaxWall=23 \
  QOS=normal,high DefaultQOS=normal
$m add user kim account=idle
$m add user ada account=research
SLURM_JWT=daemon setpriv --reuid=restd --regid=restd --clear-groups \
  slurmrestd -a rest_auth/jwt $RESTFLAGS 127.0.0.1:6820 >/var/log/slurmrestd.log 2>&1 &
scontrol create reservation reservationname=upgrade starttime=now+2hours duration=60 users=root \
  flags=maint,ignore_jobs nodes=node2 >/dev/null
scontrol create reservation reservationname=course starttime=now duration=600 accounts=research \
  nodecnt=1 partitionname=main >/dev/null
as() { u=$1; shift; (cd /tmp; setpriv --reuid=$u --regid=$u --clear-groups "$@") }
as kim sbatch -A vision --qos=high -n2 -t 10 --gres=gpu:1 --mem=200 -J burn -o /tmp/burn.log \
  --wrap 'i=0; x=aaaaaaaa; while [ ${#x} -lt 8000000 ]; do x=$x$x; done
    end=$(($(date +%s)+5)); while [ $(date +%s) -lt $end ]; do i=$((i+1)); done' >/dev/null
as kim sbatch -A vision -n1 -t 10 --mem=300 -J lazy -o /tmp/lazy.log --wrap 'sleep 3' >/dev/null
i=0; until [ -z "$(squeue -h)" ] || [ $i -ge 120 ]; do i=$((i+1)); sleep 0.5; done
as kim sbatch -A vision --qos=high -n1 -t 10 --gres=gpu:1 --mem=10 -L matlab:3 -o /tmp/r.log \
  --wrap 'sleep 600' >/dev/null
as ada sbatch -A research -n1 -t 10 --mem=10 -L matlab:1 -o /tmp/a.log --wrap 'sleep 600' >/dev/null
i=0; until [ -z "$(squeue -h -t pd)" ] || [ $i -ge 60 ]; do i=$((i+1)); sleep 0.5; done
sleep 4
echo token kim "$(scontrol token username=kim lifespan=600 | sed 's/SLURM_JWT=//')"
"""
)
ASK = r"""
import json, sys, urllib.request, time
token = sys.argv[1]
def ask(path):
    headers = {"X-SLURM-USER-NAME": "kim", "X-SLURM-USER-TOKEN": token}
    request = urllib.request.Request("http://127.0.0.1:6820" + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=8) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    except OSError as error: status, text = 0, str(error)
    print(path, status, file=sys.stderr)
    try: return {"status": status, "body": json.loads(text)}
    except ValueError: return {"status": status, "body": text}
for _ in range(60):
    if ask("/openapi")["status"]: break
    time.sleep(0.5)
found = {}
for n in range(36, 46):
    v = "v0.0.%d" % n
    if ask("/slurm/%s/ping" % v)["status"] == 404: continue
    when = "?users=kim&start_time=now-1days&end_time=now&state=CANCELLED&state=COMPLETED"
    ctl = {"reservations": "reservations", "licenses": "licenses", "diag": "diag/",
           "shares": "shares", "account-jobs": "jobs"}
    dbd = {"associations": "associations/", "qos": "qos/", "past-measured": "jobs/" + when}
    if n < 40: dbd["qos"], dbd["associations"] = "qos", "associations"
    found[v] = {k: ask("/slurm/%s/%s" % (v, p)) for k, p in ctl.items()}
    found[v] |= {k: ask("/slurmdb/%s/%s" % (v, p)) for k, p in dbd.items()}
print("@@" + json.dumps(found))
"""


def main(suite: str, kept: str = "") -> None:
    """Record one Debian release's Slurm."""
    root = Path(kept or f"/tmp/corral-record-accounts-{suite}")
    if not (root / "usr/sbin").exists():
        make_root(suite, root, PACKAGES)
    flags = "-s openapi/v0.0.38,openapi/dbv0.0.38" if is_old(root) else ""
    programs = {"record.sh": INSIDE, "ask.py": ASK}
    conf = CONF.format(host=os.uname().nodename)
    answers = asked(root, conf, programs, {"RESTFLAGS": flags})
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
