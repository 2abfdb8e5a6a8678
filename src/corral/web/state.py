"""What the routes of one server share, and who a request comes from."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Final, cast

from fastapi import Depends, Request
from pydantic import BeforeValidator

from corral.api.page.token_store import Bearer, Bearers
from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec
from corral.spec.sections.page_login import PageLogin
from corral.web.clusters.others import OtherClusters
from corral.web.clusters.search import Tallies
from corral.web.figures import Figures
from corral.web.listener.connections import Bounded
from corral.web.listener.peers import network_of, on_this_machine
from corral.web.listener.request_checks import port_of
from corral.web.login.client import TokenProgram
from corral.web.login.proxy import named_by_proxy
from corral.web.routes.streams import Questions, Streams
from corral.web.settings import Declared, Settings
from corral.web.slurm.node_event_file import NodeEventFile
from corral.web.slurm.node_events import NodeEvents
from corral.web.slurm.past_jobs import PastJobs
from corral.web.slurm.poller import OPERATORS, Poller, Pollers
from corral.web.slurm.quota import Counted
from corral.web.slurm.response_cache import ListedRows, ResponseCache
from corral.web.slurm.slurmrest import Slurm, role_of
from corral.web.tasks.background import Background
from corral.web.tasks.pending_plans import PendingPlans
from corral.web.tracking_tunnel import TrackingTunnel
from corral.web.users.audit import Audit
from corral.web.users.bearer_sessions import BearerSessions
from corral.web.users.private_data import PrivateData
from corral.web.users.scopes import needed
from corral.web.users.sessions import LoginKind, RateLimit, Session, Sessions
from corral.web.users.user_commands import UserCommands
from corral.web.users.worker_process import WorkerProcesses

COOKIE: Final = "corral_session"
"""With the port: browsers have one jar of cookies for all ports of a host, and two pages on one
host would log each other out."""
PREFIX: Final = "x-forwarded-prefix"
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,63}){1,8}")
CSRF: Final = "x-csrf-token"
TICKET: Final = "ticket"
_DIGITS: Final = re.compile(r"0|[1-9][0-9]{0,18}")
RENEW_S: Final = 60.0
"""The live view of who was logged in by a proxy's header begins again after this time, by a request
that the proxy passes on: so whom it names is known for the other streams of the session, too."""
NAMED_S: Final = 3 * RENEW_S
"""Streams of a session whose person the proxy has not named for so long end."""
RECHECK_S: Final = 1.0
"""How long a request waits for Slurm's new verdict about its login."""
UNATTENDED: Final = "x-unattended"
"""The page asked on a timer: nobody has touched it for a while. A thief gains nothing by it."""


@dataclass(slots=True)
class State:
    """One server: its settings, its sessions, its pollers.

    Attributes:
        clusters: the other clusters that the page shows.
        past: what accounting has of jobs that slurmctld has forgotten.
        declared: the cluster file, where Corral itself runs here.
        own: how a user's own commands are done; None where they cannot be.
        token_program: makes tokens of people who log in without one; None where nobody does.
        figures: what jobs use over time; None where it is unknown.
        tracking: the tunnel to the cluster's tracking server, where a browser needs one.
        background: applies and checks that go on while pages come and go.
        node_events: what happened to nodes; node_event_file: where that is kept.
        private_data: whether Slurm hides users from each other.
        bearers, by_token: the API's tokens, and the sessions that they stand for.
        plans: those that wait for the terminal's code.
        limited: checks cluster files and job forms as they are edited.
        responses: accounts, QOS, reservations and their kind, kept for some seconds.
        listed: which jobs the pages of lists have, that are sent without being made again.
        counted: what jobs have, by whom, counted once for all.
        tallies: nodes and jobs in figures, for the pages of other clusters.
        streams: how many live views each user has; searches: how many searches in logs;
            downloads: how many of logs, each with a block in memory (output.BLOCK);
            questions: what else it asks the machines about its jobs.
        asking: questions to Slurm about sessions' logins, which no request may wait for.
        logins, actions, reads: how often somebody may try, change and look.
        passwords: how often somebody may try one for a name, from wherever.
        pause: waits before a refused password is answered.
    """

    settings: Settings
    rest: Slurm
    sessions: Sessions
    pollers: Pollers
    past: PastJobs
    audit: Audit
    background: Background
    bearers: Bearers
    by_token: BearerSessions
    node_events: NodeEvents
    node_event_file: NodeEventFile
    private_data: PrivateData
    clusters: OtherClusters = field(default_factory=lambda: OtherClusters({}))
    declared: Declared | None = None
    own: UserCommands | None = None
    token_program: TokenProgram | None = None
    figures: Figures | None = None
    tracking: TrackingTunnel | None = None
    plans: PendingPlans = field(default_factory=PendingPlans)
    workers: WorkerProcesses = field(default_factory=WorkerProcesses)
    responses: ResponseCache = field(default_factory=ResponseCache)
    listed: ListedRows = field(default_factory=ListedRows)
    counted: Counted = field(default_factory=Counted)
    tallies: Tallies = field(default_factory=Tallies)
    streams: Streams = field(default_factory=Streams)
    questions: Questions = field(default_factory=Questions)
    searches: Streams = field(default_factory=lambda: Streams(2, "searches"))
    downloads: Streams = field(default_factory=lambda: Streams(2, "downloads", of_all=16))
    asking: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    passwords: RateLimit = field(default_factory=lambda: RateLimit(20, 600))
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    logins: RateLimit = field(default_factory=lambda: RateLimit(10, 60))
    actions: RateLimit = field(default_factory=lambda: RateLimit(120, 60))
    reads: RateLimit = field(default_factory=lambda: RateLimit(1200, 60))

    @property
    def spec(self) -> ClusterSpec | None:
        """The cluster, where Corral itself runs here: as it is declared now."""
        return self.declared.spec if self.declared is not None else None

    def applied(self, spec: ClusterSpec) -> None:
        """The machines are as this file declares them: all that reaches them works with it now."""
        if self.declared is not None:
            self.declared.spec = spec
        self.private_data.changed()


def here_of(state: State) -> ClusterSpec | None:
    """The cluster where Corral runs here with its keys; None in the controller's service."""
    return None if state.settings.service else state.spec


def ways_of(state: State) -> PageLogin:
    """How people log in here, next to Slurm's tokens."""
    if state.token_program is None or state.spec is None:
        return PageLogin()
    return state.spec.services.page.login


def state_of(request: Request) -> State:
    """The server's state."""
    return cast("State", request.app.state.corral)


def cookie_of(request: Request) -> str:
    """The name of the session's cookie at the port that the browser asks."""
    port = port_of(request.headers.get("host", ""))
    return f"{COOKIE}_{port}" if port else COOKIE


def prefix_of(request: Request) -> str:
    """The path below which a reverse proxy shows this page, ``/corral``; "" for none.

    Browsers get it in the path of cookies and in addresses of their own origin, nowhere else.
    """
    prefix = request.headers.get(PREFIX, "").rstrip("/")
    return prefix if _PREFIX.fullmatch(prefix) else ""


def key_of(request: Request) -> str:
    """The value of the session's cookie; "" without one."""
    return request.cookies.get(cookie_of(request), "")


def shown(request: Request) -> Session | None:
    """The session of a request that carries both of its secrets; None for anybody else's."""
    state = state_of(request)
    sessions = state.sessions
    session = sessions.find(key_of(request), touch=False)
    ticket = request.query_params.get(TICKET, "") if request.method == "GET" else ""
    if session is None:
        return None
    if not sessions.takes(session, request.headers.get(CSRF, ""), ticket):
        return None
    return session if _still_named(request, state, session) else None


def _still_named(request: Request, state: State, session: Session) -> bool:
    """Whether the proxy that logged a person in still names that one, in this browser.

    Where it names another one the session ends: live streams of before would go on with its view.
    """
    if session.kind is not LoginKind.HEADER:
        return True
    named = named_by_proxy(request, ways_of(state).header)
    if named == session.user:
        session.named = time.time()
        return True
    if named:
        state.sessions.drop(session)
    return False


async def session_of(request: Request) -> Session:
    """The session of a request that only looks.

    Raises:
        CorralError: LOGIN_REFUSED, nobody is logged in; FORBIDDEN, by a token without the scope;
            TOO_MANY.
    """
    state = state_of(request)
    known: Session | None = getattr(request.state, "session", None)
    if known is not None:  # several dependencies of one request ask; a ticket is good once
        return known
    secret = bearer_of(request)
    if secret is not None:
        session = await _by_token(request, secret)
        state.reads.take(session.csrf)
        await state.private_data.checked()
        request.state.session = session
        return session
    session = shown(request)
    if session is None:
        raise CorralError(
            Code.LOGIN_REFUSED, "nobody is logged in here", hint="log in, or run corral ui again"
        )
    await _rechecked(state, session)
    if UNATTENDED not in request.headers:
        state.sessions.find(key_of(request))  # it is in use
    state.reads.take(session.csrf)
    await state.private_data.checked()
    request.state.session = session
    return session


async def _rechecked(state: State, session: Session) -> None:
    """Ask Slurm again about a login and its role, each minute; an operator may be none any more.

    Raises:
        CorralError: LOGIN_REFUSED, Slurm takes the login no more.
    """
    if not state.sessions.expired(session):
        return

    async def asked() -> None:
        await state.rest.check(session.login)
        session.role = await role_of(state.rest, session.login, session.role)

    asking = asyncio.create_task(asked(), name="role")
    state.asking.add(asking)
    asking.add_done_callback(lambda task: _judged(state, session, task))
    # Where Slurm is slow the last verdict holds until it has answered.
    await asyncio.wait({asking}, timeout=RECHECK_S)
    if asking.done() and _is_refused(asking):
        raise CorralError(Code.LOGIN_REFUSED, "Slurm takes this login no more", hint="log in again")


def _is_refused(asking: asyncio.Task[None]) -> bool:
    error = None if asking.cancelled() else asking.exception()
    return isinstance(error, CorralError) and error.code is Code.LOGIN_REFUSED


def _judged(state: State, session: Session, asking: asyncio.Task[None]) -> None:
    state.asking.discard(asking)
    if _is_refused(asking):
        state.sessions.drop(session)


async def checked_again(request: Request, session: Session) -> Session:
    """The session of a live stream, whose role Slurm is asked about each minute as for a request.

    A stream asks for nothing else: who is an operator no more would see others' jobs until its end.
    A session that has ended meanwhile is the one of before; see ``still_in``.
    """
    state = state_of(request)
    secret = bearer_of(request)
    try:
        if secret is not None:
            known = await state.by_token.of(secret)
            return session if known is None else known[1]
        await _rechecked(state, session)
    except CorralError:  # refused: the session has ended; or Slurm is silent: nothing changes
        return session
    return session


def bearer_of(request: Request) -> str | None:
    """The bearer token of a request (RFC 6750); None where it comes with none."""
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else None


async def _by_token(request: Request, secret: str) -> Session:
    """The session of a bearer token, where the token's scopes have the operation.

    No header against forged requests is needed: no browser sends this one on its own.
    """
    state = state_of(request)
    known = await state.by_token.of(secret)
    if known is None:
        peer = peer_of(request)
        state.logins.take(peer)
        state.audit.note("", "token", peer, Code.LOGIN_REFUSED.value)
        raise CorralError(
            Code.LOGIN_REFUSED,
            "this API token is wrong, revoked or expired",
            hint="corral ui token list shows those that are good",
        )
    bearer, session = known
    request.state.bearer = bearer
    _allowed(state, request, bearer)
    return session


def _allowed(state: State, request: Request, bearer: Bearer) -> None:
    operation = f"{request.method} {request.scope['route'].path}"
    scope = needed(*operation.split(" ", 1))
    if scope in bearer.scopes:
        return
    state.audit.note(bearer.user, f"token {bearer.name}", operation, Code.FORBIDDEN.value)
    if scope is None:
        raise CorralError(
            Code.FORBIDDEN, "no API token may do this", hint="log in to the page for it"
        )
    raise CorralError(
        Code.FORBIDDEN,
        f"this API token has no scope {scope.value}",
        hint=f"make one that has: corral ui token create NAME --scope {scope.value}",
    )


def peer_of(request: Request) -> str:
    """What limits for who is not logged in go by; behind a reverse proxy the address it names."""
    host = address_of(request)
    connection: Bounded | None = getattr(request.state, "connection", None)
    if connection is None or not on_this_machine(host):
        return network_of(host)
    return connection.peer.name


def address_of(request: Request) -> str:
    """The address of who asks."""
    return request.client.host if request.client else "?"


def still_in(request: Request) -> bool:
    """Whether the session of a live stream has not ended meanwhile; looking is not a use."""
    bearer: Bearer | None = getattr(request.state, "bearer", None)
    if bearer is not None:
        return state_of(request).bearers.alive(bearer.id)
    session = state_of(request).sessions.find(key_of(request), touch=False)
    if session is None:
        return False
    return session.kind is not LoginKind.HEADER or time.time() - session.named < NAMED_S


async def changing(request: Request) -> Session:
    """The session of a request that changes something; no ticket opens it.

    Raises:
        CorralError: LOGIN_REFUSED, TOO_MANY.
    """
    session = await session_of(request)
    state = state_of(request)
    state.actions.take(session.csrf)
    bearer: Bearer | None = getattr(request.state, "bearer", None)
    if bearer is not None:
        operation = f"{request.method} {request.url.path}"
        state.audit.note(bearer.user, f"token {bearer.name}", operation)
    return session


async def owner_of(request: Request) -> tuple[Session, ClusterSpec]:
    """The session and cluster of a request that needs Corral itself.

    Raises:
        CorralError: FORBIDDEN, Corral does not run here, or another one opened it.
    """
    session = await session_of(request)
    spec = here_of(state_of(request))
    if spec is None:
        raise CorralError(
            Code.FORBIDDEN,
            "this needs Corral itself, which does not run here",
            hint="on the machine with the cluster file: corral ui FILE",
        )
    if not session.owner:
        raise CorralError(
            Code.FORBIDDEN,
            "this is for who runs Corral here",
            hint="open the page with the code that corral ui shows",
        )
    return session, spec


def shared_by(state: State, session: Session, *, accounting: bool = False) -> str:
    """Who shares an answer of Slurm's: "" for all; where Slurm hides something the viewer alone.

    Operators and administrators share theirs: Slurm's daemons hide nothing from them.

    Args:
        state: the server's.
        session: the viewer's.
        accounting: slurmdbd answers, which has its own PrivateData.
    """
    if accounting and not state.private_data.accounting_hidden:
        return ""
    if not accounting and not state.private_data.hidden:
        return ""
    return OPERATORS if session.operates else session.user


def nodes_shared_by(state: State, session: Session) -> str:
    """The same of nodes and partitions, whose revisions are those of all who share them."""
    return shared_by(state, session) if state.private_data.nodes_hidden else ""


def poller_for(state: State, session: Session) -> Poller:
    """The poller whose view this session may have."""
    return state.pollers.of(session.user, operates=session.operates)


def poller_of(request: Request, session: Session) -> Poller:
    """The same, of a request."""
    return poller_for(state_of(request), session)


# FastAPI calls what is not async in a thread, behind all files that strangers ask for.
async def _viewing(request: Request) -> Session:
    return await session_of(request)


async def _here(request: Request) -> State:
    return state_of(request)


def digits_alone(value: object) -> object:
    """A number of a path or a query, before it is read: ``2_9`` would be 29, ``017`` 17."""
    if isinstance(value, str) and not _DIGITS.fullmatch(value):
        raise ValueError("write the number in digits alone, such as 17")
    return value


DIGITS: Final = BeforeValidator(digits_alone)
Viewer = Annotated[Session, Depends(_viewing)]
Changer = Annotated[Session, Depends(changing)]
Owner = Annotated[tuple[Session, ClusterSpec], Depends(owner_of)]
Here = Annotated[State, Depends(_here)]
