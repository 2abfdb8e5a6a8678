"""Jobs of a proof that a limit holds back: reported so, not as closed ports or missing nodes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, LiteralString

from corral.hosts.quote import Script, sh
from corral.prove.context import ProveContext
from corral.prove.model import Judgement, Verdict
from corral.prove.probe import lines
from corral.slurm.states.reasons import explain

_LIMIT: Final = re.compile(r"\b(?:(?:Assoc|QOS)[A-Z]\w+|AccountingPolicy|InvalidQOS)\b")
HINT: Final = (
    "sacctmgr show assoc where user={user}, and sacctmgr show qos, show the limit (a partition's "
    "QOS: scontrol show partition). Where the cluster file declares limits, corral up makes the "
    "user corral-proof, whom none holds back; one set by hand: lift it for that user, or give it a "
    "QOS with OverPartQOS"
)


def limit_of(text: str) -> str:
    """The first word of Slurm's for a limit that a text contains, "" for none."""
    match = _LIMIT.search(text)
    return match[0] if match else ""


def watched(ctx: ProveContext, script: Script, suffix: LiteralString) -> Script:
    """The script, which starts jobs of that name, with a line ``@ waits REASON`` while one waits.

    srun --immediate reports only that it got no nodes, and accounting forgets the reason.
    """
    return sh(
        "(while sleep 2 >/dev/null 2>&1; do"
        " r=$(timeout 10 squeue -h -t PD -u {user} -n {name} -o %r 2>/dev/null);"
        ' [ -z "$r" ] || printf \'@ waits %s\\n\' "$r"; done) & w=$!\n'
        "{script}; s=$?; kill $w; exit $s",
        user=ctx.user,
        name=f"{ctx.job_name}{suffix}",
        script=script,
    )


def held_back(text: str) -> str:
    """The limit for which jobs of a ``watched`` script waited last, "" for none."""
    reasons = [limit_of(rest) for key, rest in lines(text) if key == "waits"]
    return reasons[-1] if reasons else ""


def by_limit(judged: Judgement, reason: str, user: str) -> Judgement:
    """A failure whose cause is a limit, named."""
    if judged.verdict is not Verdict.FAIL or not reason:
        return judged
    text = f"a limit holds back the jobs of {user}: {explain(reason)}"
    if reason not in text:
        text += f" ({reason})"
    return replace(judged, summary=f"{text}; {judged.summary}", hint=HINT.format(user=user))
