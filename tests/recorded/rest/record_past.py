"""Records what a real slurmrestd tells of accounting's jobs, on a standing embedded cluster.

    corral up FILE --yes; python tests/recorded/rest/record_past.py FILE

runs a few jobs of two users on it, waits until accounting knows their end, and writes
``<release>/<api>/past*.json`` for each API version of that slurmrestd: the ended jobs of a period,
those of one user, one job, one that nobody knows, and a period without jobs.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from corral.apply.session import Session
from corral.hosts.quote import sh
from corral.hosts.transport import check
from corral.slurm.rest.past_jobs import params
from corral.spec.load import load_or_raise

HERE = Path(__file__).parent
RUN = r"""
id kim >/dev/null 2>&1 || useradd -m -u 2077 kim
sacctmgr -i -Q add user kim account=corral >/dev/null 2>&1
cd /tmp
as() { u=$1; shift; setpriv --reuid="$u" --regid="$u" --init-groups "$@"; }
as kim sbatch -n1 --mem=100 --gres=gpu:1 --comment '<b>loud</b>' -J '<script>alert(1)</script>' \
  -o '/tmp/one-%j.log' --wrap 'echo out' >/dev/null
as kim sbatch -n1 --mem=10 -t 30 -J 'ends with 3' -o /tmp/two-%j.log --wrap 'exit 3' >/dev/null
as kim sbatch -n1 --mem=10 -o /tmp/three-%j.log --wrap 'kill -9 $$' >/dev/null
as corral sbatch -n1 --mem=10 --array=1-3 -o /tmp/four-%A-%a.log --wrap true >/dev/null
held=$(as kim sbatch --parsable --hold -N1 --mem=10 -o /tmp/five.log --wrap true)
as kim scancel "$held"
long=$(as kim sbatch --parsable -N2 --mem=10 -o /tmp/six-%j.log --wrap 'srun sleep 600')
i=0; until [ "$(squeue -h -j "$long" -o %T)" = RUNNING ] || [ $i -ge 100 ]; do
  i=$((i + 1)); sleep 0.2
done
as kim scancel "$long"
i=0; until [ -z "$(squeue -h -t pd,r,cg)" ] || [ $i -ge 300 ]; do i=$((i + 1)); sleep 0.2; done
i=0; until [ "$(sacct -aXnP -S now-1hour -E now -o state -j "$long")" != RUNNING ] ||
  [ $i -ge 100 ]; do i=$((i + 1)); sleep 0.2; done
sleep 2
echo "@@ $long $(scontrol token username=kim lifespan=300)"
"""
ASK = r"""
import json, sys, urllib.request, urllib.parse
job, query = sys.argv[1], json.loads(sys.argv[2])
token = sys.stdin.read().strip().removeprefix("SLURM_JWT=")
def ask(path, **query):
    url = "http://127.0.0.1:6820" + path + "?" + urllib.parse.urlencode(query, doseq=True)
    headers = {"X-SLURM-USER-NAME": "kim", "X-SLURM-USER-TOKEN": token}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as a:
            status, text = a.status, a.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    try: return {"status": status, "body": json.loads(text)}
    except ValueError: return {"status": status, "body": text}
found = {}
for n in range(38, 46):
    v = "v0.0.%d" % n
    if ask("/slurm/%s/ping" % v)["status"] == 404: continue
    base = "/slurmdb/%s" % v
    none = {**query, "start_time": "2001-01-01", "end_time": "2001-01-02"}
    found[v] = {"past": ask(base + "/jobs", **query), "past-none": ask(base + "/jobs", **none),
                "past-user": ask(base + "/jobs", **query, users="kim"),
                "past-job": ask(base + "/job/%s" % job), "past-no-job": ask(base + "/job/999999")}
print("@@" + json.dumps(found))
"""


async def record(file: str) -> dict[str, dict[str, dict[str, object]]]:
    """Run the jobs and ask for them."""
    async with await Session.open(load_or_raise(Path(file))) as session:
        fleet, node = session.fleet, session.controller
        ran = check(await fleet.run(node, sh("sh -c {s}", s=RUN), timeout=200), "running jobs")
        job, token = ran.stdout.rpartition("@@ ")[2].split()
        query = json.dumps(dict(params((1, 0), "", "")))
        words = ["python3", "-c", ASK, job, query]
        asked = await fleet.run(node, sh("{w}", w=words), stdin=token.encode(), timeout=200)
        told = check(asked, "asking slurmrestd").stdout
    answers: dict[str, dict[str, dict[str, object]]] = json.loads(told.rpartition("@@")[2])
    return answers


def main(file: str) -> None:
    """Record one cluster's accounting."""
    for api, kinds in asyncio.run(record(file)).items():
        body = kinds["past"]["body"]
        release = body["meta"]["slurm"]["release"] if isinstance(body, dict) else "unknown"
        folder = HERE / ".".join(release.split(".")[:2]) / api
        for what, answer in kinds.items():
            text = json.dumps(answer, separators=(",", ":")).replace('},{"', '},\n{"')
            (folder / f"{what}.json").write_text(f"{text}\n")
        print(f"{folder.relative_to(HERE)}: {', '.join(kinds)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
