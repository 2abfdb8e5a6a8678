"""Jobs of a proof that a limit holds back: said as that, not as closed ports or missing nodes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.prove.context import ProveContext
from corral.prove.model import Judgement, Verdict
from corral.slurm.states.reasons import explain

_LIMIT: Final = re.compile(r"\b(?:(?:Assoc|QOS)[A-Z]\w+|AccountingPolicy|InvalidQOS)\b")
HINT: Final = (
    "sacctmgr show assoc where user={user}, and sacctmgr show qos, show the limit (a partition's "
    "QOS: scontrol show partition). Where the cluster file declares limits, corral up makes the "
    "user corral-proof, whom none holds back; one set by hand: lift it for that user, or give it a "
    "QOS with OverPartQOS"
)


def limit_of(text: str) -> str:
    """The first word of Slurm's for a limit that stands in a text, "" for none."""
    match = _LIMIT.search(text)
    return match[0] if match else ""


async def held_back(ctx: ProveContext, suffix: str) -> str:
    """Why Slurm last held back this proof's jobs of that name, "" when no limit did.

    srun --immediate says only that it got no nodes; accounting keeps the reason.
    """
    script = sh(
        "timeout 20 sacct -n -P -X -u {user} -S now-1hours --name={name} -o Reason",
        user=ctx.user,
        name=f"{ctx.job_name}{suffix}",
    )
    try:
        answer = await ctx.control(script)
    except CorralError:
        return ""
    return limit_of(answer.stdout)


def by_limit(judged: Judgement, reason: str, user: str) -> Judgement:
    """A failure whose cause is a limit, named."""
    if judged.verdict is not Verdict.FAIL or not reason:
        return judged
    text = f"a limit holds back the jobs of {user}: {explain(reason)}"
    if reason not in text:
        text += f" ({reason})"
    return replace(judged, summary=f"{text}; {judged.summary}", hint=HINT.format(user=user))
