"""Accounts, QOS, reservations, licences and the scheduler's figures: read by all.

What the cluster file declares of them is changed by who runs Corral here: as an edit of the file's
text, which is planned and applied as any other.

Each table is asked once for all viewers and kept for some seconds; where PrivateData hides users
from each other, each viewer's own token asks, and Slurm decides.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any, Final, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from corral import api
from corral.slurm.diagnostics import cycle_exits
from corral.slurm.policy import EVENTS, Cycle, Member, Qos, Reservation, Share, known_limits
from corral.slurm.rest import policy as questions
from corral.slurm.rest.policy import RestQuestion
from corral.web import schemas
from corral.web.routes.view import packed_of
from corral.web.slurm.quota import limit_dict
from corral.web.slurm.response_cache import CachedResponse
from corral.web.state import Changer, Here, Owner, State, Viewer, shared_by
from corral.web.users.sessions import Session

router = APIRouter(prefix="/api/policy", tags=["policy"])
T = TypeVar("T")
KEEP_S: Final = 10.0
KEEP_ACCOUNTS_S: Final = 60.0
"""Accounts and QOS are changed by people, and slurmdbd reads them out of its database."""
MOST_CALLS: Final = 20


class EntryChange(BaseModel):
    """A change of one entry of the cluster file; ``fields`` null takes it out.

    ``digest`` is of the file that was shown, so that nobody changes what somebody else has changed.
    """

    model_config = ConfigDict(extra="forbid")

    section: str = Field(max_length=40)
    name: str = Field(min_length=1, max_length=64)
    fields: dict[str, str] | None = Field(max_length=40)
    digest: str = Field(min_length=1, max_length=64)


async def asked(state: State, session: Session, question: RestQuestion[T]) -> CachedResponse[T]:
    """What Slurm answers to a question; why it does not, where that is so.

    Raises:
        CorralError: LOGIN_REFUSED.
    """
    key = (question.path, shared_by(state, session, accounting=question.of_accounting))

    async def ask() -> T:
        if question.of_accounting:
            return await state.past.ask(lambda slurm: slurm.answer(session.login, question))
        return await state.rest.answer(session.login, question)

    return await state.responses.get(
        key, KEEP_ACCOUNTS_S if question.of_accounting else KEEP_S, ask
    )


@router.get("/limits", response_model=schemas.LimitMeanings)
async def limits(session: Viewer) -> Any:
    """What each limit of accounts, users and QOS means."""
    rows = known_limits().values()
    return {
        "limits": [{"name": row.name, "bounds": row.bounds, "means": row.means} for row in rows]
    }


@router.get("/accounts", response_model=schemas.Accounts)
async def accounts(request: Request, session: Viewer, state: Here) -> Response:
    """All accounts and their users, with limits and shares.

    ``known`` is false where slurmdbd does not answer, and ``why`` has the reason; an account
    follows the one above it.
    """
    members = await asked(state, session, questions.ASSOCIATIONS)
    shares = await asked(state, session, questions.SHARES)
    # Shares are slurmctld's, the rest is slurmdbd's: each has its own PrivateData.
    who = shared_by(state, session) or shared_by(state, session, accounting=True)
    key = f"accounts:{who}"
    rev = hash((members.at, members.why, shares.at, shares.why))
    # Packed once for all viewers: 10,000 users are 5 MB.
    return await packed_of(request).reply(request, key, rev, lambda: _accounts(members, shares))


def _accounts(
    members: CachedResponse[tuple[Member, ...]], shares: CachedResponse[tuple[Share, ...]]
) -> dict[str, Any]:
    by_name = {(share.account, share.user): share for share in shares.value or ()}
    listed = [
        _member_dict(member, depth, by_name.get((member.of.account, member.of.user)))
        for member, depth in in_tree(members.value or ())
    ]
    return {**members.head(), "why_no_shares": shares.why, "accounts": listed}


def in_tree(members: tuple[Member, ...]) -> list[tuple[Member, int]]:
    """Accounts below the one they belong to, each with its users first, and how deep they are."""
    below = dict[str, list[Member]]()
    users = dict[str, list[Member]]()
    names = {member.of.account for member in members if not member.of.user}
    for member in members:
        if member.of.user:
            users.setdefault(member.of.account, []).append(member)
        else:
            parent = member.of.parent if member.of.parent in names else ""
            below.setdefault(parent, []).append(member)
    made: list[tuple[Member, int]] = []
    stack = [(member, 0) for member in _by_name(below.get("", []), down=True)]
    while stack:
        member, depth = stack.pop()
        made.append((member, depth))
        own = _by_name(users.pop(member.of.account, []), down=False)
        made += [(user, depth + 1) for user in own]
        stack += [(m, depth + 1) for m in _by_name(below.pop(member.of.account, []), down=True)]
    # PrivateData may show a user without the account: nothing that Slurm shows is left out.
    return made + [(user, 0) for rest in users.values() for user in rest]


def _by_name(members: list[Member], *, down: bool) -> list[Member]:
    return sorted(members, key=lambda m: (m.of.account, m.of.user, m.partition), reverse=down)


def _member_dict(member: Member, depth: int, share: Share | None) -> dict[str, Any]:
    of = member.of
    return {
        "account": of.account,
        "user": of.user,
        "parent": of.parent,
        "partition": member.partition,
        "depth": depth,
        "is_default": member.is_default,
        "shares": of.share,
        "qos": of.qos,
        "default_qos": of.default_qos,
        "limits": [limit_dict(limit) for limit in member.limits],
        "part": share.part if share else None,
        "usage": share.usage if share else None,
        "factor": share.factor if share else None,
    }


@router.get("/qos", response_model=schemas.AllQos)
async def qos(session: Viewer, state: Here) -> dict[str, Any]:
    """All QOS, those of highest priority first. ``unreported``: limits that are unknown."""
    answered = await asked(state, session, questions.QOSES)
    return {**answered.head(), "qos": [_qos_dict(entry) for entry in answered.value or ()]}


def _qos_dict(entry: Qos) -> dict[str, Any]:
    return {**asdict(entry), "limits": [limit_dict(limit) for limit in entry.limits]}


@router.get("/reservations", response_model=schemas.Reservations)
async def reservations(session: Viewer, state: Here) -> dict[str, Any]:
    """All reservations, those that begin first at the top."""
    answered = await asked(state, session, questions.RESERVATIONS)
    return {**answered.head(), "reservations": [_reservation_dict(r) for r in answered.value or ()]}


@router.get("/licenses", response_model=schemas.Licenses)
async def licenses(session: Viewer, state: Here) -> dict[str, Any]:
    """All licences that Slurm counts: total, used, free."""
    answered = await asked(state, session, questions.LICENSES)
    return {**answered.head(), "licenses": [asdict(entry) for entry in answered.value or ()]}


@router.get("/scheduler", response_model=schemas.SchedulerState)
async def scheduler(session: Viewer, state: Here) -> dict[str, Any]:
    """What sdiag prints; lengths in microseconds, null is not reported."""
    answered = await asked(state, session, questions.SCHEDULER)
    if answered.value is None:
        return {**answered.head(), "figures": None}
    now = answered.value
    jobs = now.jobs or {}
    figures = {
        "since": now.since,
        "threads": now.threads,
        "agents": now.agents,
        "database": now.database,
        "jobs": dict(jobs),
        "events": [
            {"name": name, "jobs": jobs[event]} for event, name in EVENTS.items() if event in jobs
        ],
        "main": _cycle_dict(now.main),
        "backfill": _cycle_dict(now.backfill),
        "backfilled": now.backfilled,
        "by_type": [asdict(call) for call in now.by_type[:MOST_CALLS]],
        "by_user": [asdict(call) for call in now.by_user[:MOST_CALLS]],
    }
    return {**answered.head(), "figures": figures}


@router.get("/declared", response_model=schemas.Declared)
async def declared(owner: Owner, state: Here) -> dict[str, Any]:
    """What the cluster file declares of them, and the fields that can be changed."""
    path = state.settings.source
    fields = {
        section: [asdict(field) for field in listed] for section, listed in api.editable().items()
    }
    nothing = {"path": path, "digest": "", "fields": fields, "entries": {}, "limits": {}}
    nothing |= {"held": False, "directory": []}
    if not path:
        return {**nothing, "why": "this page was opened without the cluster file: corral ui FILE"}
    file = await asyncio.to_thread(api.read_file, path)
    spec, _ = await state.workers.lint(file.text, path, owner[0].user)
    if spec is None:
        return {**nothing, "why": "the cluster file has errors: corral lint FILE shows them"}
    groups = spec.directory.groups if spec.directory else ()
    return {
        **nothing,
        "why": "",
        "digest": file.digest,
        "entries": api.entries_of(file.text),
        "limits": api.declared_limits(spec),
        "held": api.holds_limits(spec),
        "directory": sorted({group.account for group in groups}),
    }


@router.post("/edit", response_model=schemas.EditedFile)
async def edit(change: EntryChange, owner: Owner, session: Changer, state: Here) -> dict[str, Any]:
    """One entry changed in the cluster file's text, with its findings; saves nothing.

    ``POST /api/corral/plan`` with the text and the digest plans it; applying that saves the file.
    """
    path = state.settings.source
    made = await asyncio.to_thread(
        api.edit_entry, path, change.section, change.name, change.fields, change.digest
    )
    _, findings = await state.workers.lint(made.text, path, session.user)
    return {
        "digest": change.digest,
        "text": made.text,
        "diff": made.diff(),
        "findings": findings,
    }


def _reservation_dict(reservation: Reservation) -> dict[str, Any]:
    fields = asdict(reservation)
    return {name: fields[name] for name in schemas.ReservationRow.__annotations__}


def _cycle_dict(cycle: Cycle) -> dict[str, Any]:
    exits = dict(cycle.exits or {})
    meanings = {word: cycle_exits().get(word, word) for word in exits}
    return {**asdict(cycle), "exits": exits, "meanings": meanings}
