"""``#SBATCH`` lines given to sbatch and to ``corral run``: each changes the job in the same way.

Both submit the same script with one line more, held. Each field of ``scontrol show job`` that the
line changes under one of them has the same value under both; else the verb reports it or refuses
the line. Nothing is dropped without a word.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from corral import api
from corral.errors import CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import sh
from corral.jobs.submit import submit

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

BASE = "--nodes=1 --ntasks-per-node=1 --cpus-per-task=1 --time=30 --hold"
LINES = (
    "--nodes=2", "--ntasks-per-node=2", "--ntasks=2 --nodes=2", "--cpus-per-task=2", "--time=10",
    "--time=1-00:00:00", "--mem=100M", "--mem-per-cpu=50M", "--gres=gpu:1", "--gpus-per-node=1",
    "--gpus=1", "--gpus-per-task=1", "--gpus=2 --nodes=2", "--mem-per-gpu=50M --gpus-per-node=1",
    "--job-name=other", "--partition=main", "--chdir=/tmp", "--array=0-3%2", "--requeue",
    "--requeue --comment=a-note", "--no-requeue", "--account=lab", "--begin=now+1hour",
    "--comment=a-note", "--contiguous",
    "--core-spec=1", "--deadline=now+2hours", "--delay-boot=10", "--dependency=singleton",
    "--exclude=node2", "--exclusive", "--extra=word", "--gres-flags=enforce-binding --gres=gpu:1",
    "--hint=nomultithread", "--kill-on-invalid-dep=yes", "--licenses=none:1", "--mail-type=END",
    "--mail-type=FAIL --mail-user=ada", "--mincpus=2", "--nice=5", "--no-kill", "--nodelist=node1",
    "--oversubscribe", "--priority=100", "--profile=none", "--qos=normal", "--reboot",
    "--reservation=none", "--spread-job", "--switches=1", "--thread-spec=1", "--threads-per-core=1",
    "--time-min=5", "--tmp=1", "--use-min-nodes", "--wckey=word", "--cpu-freq=performance",
    "--gpu-freq=low --gpus-per-node=1", "--constraint=nowhere", "--prefer=nowhere",
    # no field of a job of Corral's: reported or refused
    "--export=NONE", "--export=ALL", "--export=WORD=1", "--output=other.log", "--error=other.err",
    "--input=/dev/null", "--open-mode=append", "--signal=USR1@60", "--wait-all-nodes=1",
    "--distribution=cyclic", "--overcommit", "--ntasks-per-core=1", "--gpus-per-socket=1",
    "--sockets-per-node=1", "--gpu-bind=closest", "--mem-bind=local", "--parsable", "--propagate",
)  # fmt: skip
# Of each job its own; Corral's files are in a folder of the job, and its script goes to --chdir
# itself. ReqTRES has how much memory and how many GPUs a job gets; MinMemory* and TresPer* are
# ways to ask for them.
OWN = re.compile(
    r"JobId|ArrayJobId|ArrayTaskId|.*Time$|Command|StdOut|StdErr|LastSchedEval|Priority|SubmitLine"
    r"|BatchHost|ReqNodeList|TRES|JobName|AllocNode:Sid|WorkDir|TresPer(Job|Node|Task)"
    r"|MinMemory(CPU|Node|TRES)|MemPerTres"
)
# Of --requeue the comment by which a cloud's notice reaches the job (docs/guide/elastic.md).
ADDED = {"--requeue": {"Comment"}}
KEPT = {"Priority": {"--priority=100", "--nice=5"}, "JobName": {"--job-name=other"}}
TIMES = ("--begin", "--deadline")
FIELD = re.compile(r"(?:^|\s)([A-Z][\w/:]*)=(.*?)(?=\s+[A-Z][\w/:]*=|\s*$)")


def fields_of(line: str, option: str) -> dict[str, str]:
    """Fields of a job that a line may change."""
    fields = {
        name: value
        for name, value in FIELD.findall(line)
        if not OWN.fullmatch(name) or option in KEPT.get(name, ())
    }
    limits = {n: v for n, v in FIELD.findall(line) if n in {"TimeLimit", "ReqTRES", "TimeMin"}}
    for name in ("EligibleTime", "Deadline"):
        value = dict(FIELD.findall(line)).get(name, "")
        limits[name] = "set" if option.startswith(TIMES) and value[:1].isdigit() else ""
    return fields | limits


def text_of(option: str) -> str:
    return f"#!/bin/bash\n#SBATCH {BASE}\n" + (f"#SBATCH {option}\n" if option else "") + "true\n"


SHOW = "scontrol show job -d -o "


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in {*before, *after} if before.get(name, "") != after.get(name, "")}


async def by_sbatch(fleet: Fleet, controller: str, option: str, user: str) -> dict[str, str] | None:
    """The fields of a job that sbatch submits as ``user``; None: it refuses it."""
    script = sh(
        "cd /shared && id=$(runuser -u {user} -- sbatch --parsable) && "
        "scontrol show job -d -o $id | head -n 1; s=$?; scancel $id; exit $s",
        user=user,
    )
    done = await fleet.run(controller, script, stdin=text_of(option).encode(), timeout=60)
    return fields_of(done.stdout.strip(), option) if "JobId=" in done.stdout else None


async def by_corral(
    fleet: Fleet, live: Live, option: str, folder: Path
) -> tuple[dict[str, str] | None, tuple[str, ...]]:
    """The fields of a job of ``corral run``, and what it reports; None: it refuses it."""
    file = folder / f"job-{uuid.uuid4().hex[:8]}.sh"
    file.write_text(text_of(option))
    try:
        fields, notes = api.script_fields({"script": str(file)})
        job = await submit(fleet, live.controller, live.spec, api.job_spec(fields))
    except CorralError:
        return None, ()
    show = sh("scontrol show job -d -o {id} | head -n 1; scancel {id}", id=str(job.id))
    done = await fleet.run(live.controller, show, timeout=60)
    return fields_of(done.stdout.strip(), option), notes


@pytest.mark.slow
def test_each_line_does_the_same_or_is_reported(cluster: Live, tmp_path: Path) -> None:
    async def work(fleet: Fleet) -> tuple[list[str], dict[str, int]]:
        wrong: list[str] = []
        counts = {"same": 0, "reported": 0, "refused": 0, "refused by sbatch": 0}
        ours, _ = await by_corral(fleet, cluster, "", tmp_path)
        assert ours
        user = ours["UserId"].partition("(")[0]
        plain = await by_sbatch(fleet, cluster.controller, "", user)
        assert plain
        for option in LINES:
            theirs = await by_sbatch(fleet, cluster.controller, option, user)
            mine, notes = await by_corral(fleet, cluster, option, tmp_path)
            if mine is None:
                counts["refused by sbatch" if theirs is None else "refused"] += 1
            elif theirs is None:
                wrong.append(f"{option}: sbatch refuses it, Corral does not")
            else:
                added = ADDED.get(option, set[str]())
                names = sorted((changed(plain, theirs) | changed(ours, mine)) - added)
                pairs = {name: (theirs.get(name, ""), mine.get(name, "")) for name in names}
                other = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
                counts["reported" if notes else "same"] += 1
                if other and not notes:
                    wrong.append(f"{option}: {other}")
        return wrong, counts

    wrong, counts = cluster.with_fleet(work)
    assert not wrong, "\n".join(wrong)
    assert sum(counts.values()) == len(LINES)
    assert counts["same"] >= 40
