"""Opens the session of a login that Slurm has accepted, however it was made."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from corral.web.listener.request_checks import name_of
from corral.web.slurm.slurmrest import Login, role_of
from corral.web.slurm.snapshot import JOB_KINDS, NODE_KINDS
from corral.web.state import State, address_of, cookie_of, here_of, key_of, prefix_of, shown
from corral.web.users.sessions import LoginKind, Session


async def opened(
    state: State,
    request: Request,
    response: Response,
    login: Login,
    *,
    owner: bool = False,
    kind: LoginKind = LoginKind.TOKEN,
) -> Any:
    """A new session for a login that Slurm has accepted; the one before it of this browser ends."""
    role = await role_of(state.rest, login)
    if shown(request) is not None:
        state.sessions.close(key_of(request))
    key, session = state.sessions.open(login, role, owner=owner, kind=kind)
    response.set_cookie(
        cookie_of(request),
        key,
        httponly=True,
        samesite="strict",
        secure=secure(request, state),
        path=f"{prefix_of(request)}/",
    )
    state.audit.note(login.user, "login", address_of(request))
    return {**described(session, state), "csrf": session.csrf}


def described(session: Session, state: State) -> dict[str, Any]:
    """The session, and what this server can do, as the page gets it."""
    return {
        **session.as_dict(),
        "cluster": state.settings.cluster,
        "clusters": state.clusters.listed(),
        "corral": here_of(state) is not None,
        "mine": state.spec is not None,
        "figures": state.figures is not None,
        "storage": [s.mount for s in state.spec.storage] if state.spec else [],
        "racks": bool(state.spec and state.spec.racks),
        "node_kinds": list(NODE_KINDS.items()),
        "job_kinds": list(JOB_KINDS.items()),
    }


def secure(request: Request, state: State) -> bool:
    """Whether the browser came by TLS, here or at a reverse proxy; a tunnel's loopback does not."""
    if request.url.scheme == "https":
        return True
    name = name_of(request.headers.get("host", ""))
    return name in state.settings.names and not state.settings.plain
