"""The server: one FastAPI application for one cluster."""

from __future__ import annotations

import gzip
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from corral.api.page.token_store import Bearers
from corral.errors import CODES, Code, CorralError
from corral.spec.models import ClusterSpec
from corral.web import figures
from corral.web.clusters import routes as clusters
from corral.web.clusters.others import OtherClusters
from corral.web.figures import Figures, Prometheus
from corral.web.listener.request_checks import RequestChecks
from corral.web.login import oidc_routes
from corral.web.login import routes as login_ways
from corral.web.login.client import TokenProgram
from corral.web.openapi import FAILED, TAGS, describe
from corral.web.routes import (
    bulk,
    form,
    jobs,
    login,
    my_work,
    nodes,
    output,
    owner,
    past_jobs,
    policy,
    report,
    scripts,
    timeline,
    tokens,
    view,
)
from corral.web.settings import BY_COMMANDS, Declared, Settings
from corral.web.slurm.commands import ByCommands
from corral.web.slurm.node_event_file import NodeEventFile
from corral.web.slurm.node_events import NodeEvents
from corral.web.slurm.past_jobs import PastJobs
from corral.web.slurm.poller import OPERATORS, SHARED, Poller, Pollers
from corral.web.slurm.readers.jobs import JobChanges
from corral.web.slurm.readers.nodes import NodeReader
from corral.web.slurm.slurmrest import Login, Slurm, SlurmRest
from corral.web.slurm.snapshot import Snapshot
from corral.web.state import State, Viewer, bearer_of
from corral.web.tasks.background import Background
from corral.web.tracking_tunnel import TrackingTunnel
from corral.web.users.audit import Audit
from corral.web.users.bearer_sessions import BearerSessions
from corral.web.users.private_data import EVERYTHING, PrivateData, Run, here, on_controller
from corral.web.users.sessions import Sessions
from corral.web.users.user_commands import ByHelper, BySsh, UserCommands

STATIC: Final = Path(__file__).parent / "static"
ROUTES: Final = (
    login, login_ways, oidc_routes, tokens, view, clusters, timeline, my_work, policy, bulk, form,
    scripts, jobs, output, past_jobs, nodes, owner, report,
)  # fmt: skip
AS_THEY_ARE: Final = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/octet-stream")
"""Not compressed: a log of 1 GB would keep the event loop from all others."""
_OF_A_FILE: Final = ("content-length", "accept-ranges")
"""Headers of a file that its compressed form has not."""


def create_app(settings: Settings, transport: httpx.AsyncBaseTransport | None = None) -> FastAPI:
    """The application.

    Args:
        settings: which cluster, and where slurmrestd is.
        transport: httpx's to slurmrestd, for tests; None: the network.
    """
    declared = Declared(ClusterSpec.model_validate(settings.spec)) if settings.spec else None
    rest: Slurm = SlurmRest(settings.rest, transport)
    if declared is not None and settings.rest == BY_COMMANDS:
        rest = ByCommands(declared)
    sessions = Sessions(settings.session_s, settings.idle_s)
    private_data = PrivateData(_slurm_commands(settings, declared), known=_hidden(settings))
    bearers = Bearers(settings.tokens)
    by_token = BearerSessions(bearers, rest)
    node_events = NodeEvents()
    node_event_file = NodeEventFile(settings.node_events, node_events)

    def changed(before: Snapshot, now: Snapshot) -> None:
        node_events.note(before, now)
        node_event_file.changed()
        if before.trouble and not now.trouble:  # slurmctld was started again, perhaps
            private_data.changed()

    pollers = _pollers(settings, rest, (sessions, by_token), private_data, changed)
    state = State(
        settings=settings,
        rest=rest,
        sessions=sessions,
        pollers=pollers,
        past=PastJobs(
            rest, _spare(settings, declared, rest), uncounted=lambda: _uncounted(declared, pollers)
        ),
        audit=Audit(settings.audit),
        background=Background(),
        bearers=bearers,
        by_token=by_token,
        node_events=node_events,
        node_event_file=node_event_file,
        private_data=private_data,
        clusters=OtherClusters(settings.clusters),
        declared=declared,
        own=_own(settings, declared),
        token_program=_token_program(settings),
        figures=_figures(settings, declared),
        tracking=_tracking(settings, declared),
    )
    return _application(state)


def _pollers(
    settings: Settings,
    rest: Slurm,
    kept: tuple[Sessions, BearerSessions],
    private_data: PrivateData,
    changed: Callable[[Snapshot, Snapshot], None],
) -> Pollers:
    """The pollers, each of which asks with the logins of those whose view it is."""
    sessions, by_token = kept

    def logins(view: str) -> list[Login]:
        if view == OPERATORS:
            return sessions.operators() + by_token.operators()
        return sessions.logins(view) + by_token.logins(view)

    def poller(
        view: str, first: int, nodes: NodeReader | None, changes: JobChanges | None
    ) -> Poller:
        return Poller(
            rest,
            lambda: logins(view),
            fastest=settings.poll_s,
            max_viewers=settings.max_viewers,
            changed=changed,
            first=first,
            others=lambda: pollers.took(view),
            nodes=nodes,
            changes=changes,
        )

    pollers = Pollers(rest, poller, private_data, lasts=SHARED * settings.poll_s)
    return pollers


def _application(state: State) -> FastAPI:
    """What is served of a state: the API's routes, its description, and the page's files."""
    app = FastAPI(
        title="Corral",
        summary="See and run one Slurm cluster.",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        openapi_tags=TAGS,
        responses=FAILED,
        lifespan=_lifespan(state),
    )
    app.state.corral = state
    app.state.oidc = oidc_routes.OidcState()
    describe(app)
    _errors(app)
    for part in ROUTES:
        app.include_router(part.router)

    @app.get("/api/openapi.json", include_in_schema=False)
    async def described(session: Viewer) -> JSONResponse:  # pyright: ignore
        return JSONResponse(app.openapi())  # like all but the login, for who is logged in

    app.mount("/", _Static(STATIC), name="static")
    app.add_middleware(GZipMiddleware, compresslevel=6, exclude_content_types=AS_THEY_ARE)
    settings = state.settings
    app.add_middleware(
        RequestChecks, names=settings.names, hsts=settings.hsts, clusters=state.clusters
    )
    return app


def _lifespan(state: State) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Closes at the end what the application holds open."""

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncGenerator[None]:
        await state.private_data.checked()
        yield
        await state.private_data.close()
        await state.pollers.close()
        await state.node_event_file.close()
        await state.rest.close()
        if state.figures is not None:
            await state.figures.close()
        if state.tracking is not None:
            await state.tracking.close()

    return running


def _hidden(settings: Settings) -> frozenset[str] | None:
    """What Slurm hides, where the settings have it."""
    if settings.private is None or isinstance(settings.private, frozenset):
        return settings.private
    return EVERYTHING if settings.private else frozenset()


def _uncounted(declared: Declared | None, pollers: Pollers) -> bool:
    """Whether the cluster may have GPUs that accounting does not count.

    Corral has them counted wherever a node has some. Of another cluster its nodes show it: their
    TRES have gres/gpu where it is tracked.
    """
    return declared is None and not pollers.counts_gpus


def _spare(settings: Settings, declared: Declared | None, rest: Slurm) -> Slurm | None:
    """Who asks accounting where slurmrestd cannot: sacct, from the machine with the keys."""
    if declared is None or settings.service or isinstance(rest, ByCommands):
        return None
    return ByCommands(declared)


def _slurm_commands(settings: Settings, declared: Declared | None) -> Run | None:
    """How the server runs commands of Slurm's that need no user's rights."""
    if settings.service:
        return here()
    if declared is None or settings.handover is None:
        return None
    return on_controller(declared, settings.handover[0])


def _own(settings: Settings, declared: Declared | None) -> UserCommands | None:
    if settings.as_user:
        return ByHelper(settings.as_user)
    return BySsh(declared) if declared is not None and not settings.service else None


def _token_program(settings: Settings) -> TokenProgram | None:
    return TokenProgram(settings.token_program) if settings.token_program else None


def _figures(settings: Settings, declared: Declared | None) -> Figures | None:
    if settings.prometheus:
        return Prometheus(settings.prometheus, cluster=settings.cluster)
    return figures.BySsh(declared) if declared is not None and not settings.service else None


def _tracking(settings: Settings, declared: Declared | None) -> TrackingTunnel | None:
    if declared is None or settings.service:
        return None
    return TrackingTunnel(declared)


class _Static(StaticFiles):
    """The page's own files; revalidated each time, answered by 304 where nothing changed.

    Each is read and compressed once: a first view asks for some 20 of them.
    """

    _packed: dict[tuple[str, int, int], bytes]

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=directory, html=True)
        self._packed = {}

    async def get_response(self, path: str, scope: Scope) -> object:  # pyright: ignore
        reply = await super().get_response(path, scope)
        reply.headers.setdefault("cache-control", "no-cache")
        return reply

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        reply = super().file_response(full_path, stat_result, scope, status_code)
        asked = Headers(scope=scope)
        packs = "gzip" in asked.get("accept-encoding", "") and "range" not in asked
        if not isinstance(reply, FileResponse) or not packs or scope["method"] != "GET":
            return reply
        key = (str(full_path), stat_result.st_mtime_ns, stat_result.st_size)
        if key not in self._packed:
            self._packed[key] = gzip.compress(Path(full_path).read_bytes(), 9, mtime=0)
        headers = {k: v for k, v in reply.headers.items() if k not in _OF_A_FILE}
        headers |= {"content-encoding": "gzip", "vary": "Accept-Encoding"}
        return Response(self._packed[key], status_code, headers)


def _errors(app: FastAPI) -> None:
    @app.exception_handler(CorralError)
    async def ours(request: Request, error: CorralError) -> JSONResponse:  # pyright: ignore
        refused = error.code is Code.LOGIN_REFUSED and bearer_of(request) is not None
        headers = {"www-authenticate": 'Bearer error="invalid_token"'} if refused else None
        return JSONResponse({"error": error.as_dict()}, CODES[error.code].http, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:  # pyright: ignore
        messages = [
            f"{'.'.join(str(part) for part in detail['loc'][1:])}: {_sentence(detail)}"
            for detail in error.errors()
        ]
        body: dict[str, Any] = {
            "code": Code.USAGE.value,
            "message": "; ".join(messages[:10])[:2000],
        }
        fields = {
            str(detail["loc"][1]): _sentence(detail)[:500]
            for detail in error.errors()[:10]
            if len(detail["loc"]) > 1 and detail["loc"][0] == "body"
        }
        body |= {"fields": fields} if fields else {}
        return JSONResponse({"error": body}, 422)

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> JSONResponse:  # pyright: ignore
        body = {"code": _code_of(error.status_code).value, "message": str(error.detail)}
        if isinstance(error.__cause__, RecursionError):
            body["message"] = "the request's JSON is nested too deeply"
        return JSONResponse({"error": body}, error.status_code, headers=error.headers)

    @app.exception_handler(RecursionError)
    async def deep(request: Request, error: RecursionError) -> JSONResponse:  # pyright: ignore
        body = {"code": Code.USAGE.value, "message": "the request's JSON is nested too deeply"}
        return JSONResponse({"error": body}, 400)


def _sentence(detail: Any) -> str:
    """What is wrong, without pydantic's own words in front of ours."""
    return str(detail["msg"]).removeprefix("Value error, ")


def _code_of(status: int) -> Code:
    """The error code of a status that is not ours: what is wrong with a request is usage."""
    return next((code for code, info in CODES.items() if info.http == status), Code.USAGE)
