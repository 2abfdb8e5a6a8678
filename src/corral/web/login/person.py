"""Who may have a token of root's program: a person whom the controller knows."""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Iterable
from typing import Final

from corral.errors import Code, CorralError

_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_PEOPLE: Final = 1000
"""Smaller user numbers are the system's own (SYS_UID_MAX of login.defs)."""
_RESERVED: Final = range(60001, 65536)
"""Debian's and systemd's own users, Corral's services among them, and nobody."""
_NO_LOGIN: Final = frozenset({"nologin", "false"})


def person(user: str, groups: Iterable[str]) -> str:
    """The name of a user who may have a token.

    Args:
        user: a name, from whoever vouches for it.
        groups: those of which the person must be in one; empty: everybody.

    Raises:
        CorralError: LOGIN_REFUSED, the controller does not know this user; FORBIDDEN, it is not a
            person's, or in none of the groups.
    """
    try:
        known = pwd.getpwnam(user) if _USER.fullmatch(user) else None
    except KeyError:
        known = None
    # A directory may find Kim for kim: Slurm would have two users.
    if known is None or known.pw_name != user:
        raise CorralError(
            Code.LOGIN_REFUSED,
            f"this cluster has no user {user[:64]!r}",
            hint="ask who runs the cluster for an account",
        )
    number, group = known.pw_uid, known.pw_gid
    if number < _PEOPLE or number in _RESERVED or not group or _closed(known.pw_shell):
        raise CorralError(
            Code.FORBIDDEN, f"{user} is not a person's account", hint="log in as a person"
        )
    if not _in_one(known, groups):
        raise CorralError(
            Code.FORBIDDEN,
            f"{user} may not log in to this page",
            hint="ask who runs the cluster: its page is for some groups only",
        )
    return user


def _closed(shell: str) -> bool:
    return shell.rpartition("/")[2] in _NO_LOGIN


def _in_one(known: pwd.struct_passwd, groups: Iterable[str]) -> bool:
    allowed = tuple(groups)
    if not allowed:
        return True
    numbers = set(os.getgrouplist(known.pw_name, known.pw_gid))
    return any(_number(group) in numbers for group in allowed)


def _number(group: str) -> int | None:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None
