"""Whom a reverse proxy on this machine names, and that it is the proxy."""

from __future__ import annotations

import pwd
from dataclasses import dataclass, field
from functools import lru_cache

from fastapi import Request

from corral.errors import Code, CorralError
from corral.spec.sections.page_login import HeaderLogin
from corral.web.listener.connections import Bounded
from corral.web.login.question import LONGEST_NAME, LONGEST_SECRET, SECRET_HEADER


@dataclass(frozen=True, slots=True)
class ProxyWord:
    """Whom the proxy names, and its secret, which root's program judges."""

    user: str
    secret: str = field(repr=False)


def word_of(request: Request, header: HeaderLogin | None) -> ProxyWord | None:
    """Whom the proxy names in a request; None where it does not come from the proxy's user.

    The kernel knows whose a connection of this machine is; what another program sends is not read.

    Raises:
        CorralError: LOGIN_REFUSED, it names nobody or several, or sends no secret.
    """
    connection: Bounded | None = getattr(request.state, "connection", None)
    if header is None or connection is None or not connection.peer.service:
        return None
    if connection.peer.uid != _number(header.proxy):
        return None
    names, secrets = (
        [value.strip() for value in request.headers.getlist(name)]
        for name in (header.header, SECRET_HEADER)
    )
    if not any(names):
        return None
    if len(names) > 1 or len(secrets) != 1:
        raise CorralError(
            Code.LOGIN_REFUSED,
            "the reverse proxy does not name one person with its secret",
            hint="ask who runs the proxy: it must overwrite both headers",
        )
    return ProxyWord(names[0][:LONGEST_NAME], secrets[0][:LONGEST_SECRET])


def named_by_proxy(request: Request, header: HeaderLogin | None) -> str:
    """The user whom the proxy names; "" where there is none, or not one."""
    try:
        word = word_of(request, header)
    except CorralError:
        return ""
    return word.user if word is not None else ""


def _number(user: str) -> int | None:
    try:
        return _known_number(user)
    except KeyError:  # the proxy is not installed yet
        return None


@lru_cache
def _known_number(user: str) -> int:
    return pwd.getpwnam(user).pw_uid
