"""A Slurm token for a person, made by root on the controller."""

from __future__ import annotations

from typing import Final

from corral.errors import Code, CorralError
from corral.hosts import process
from corral.web.slurm.slurmrest import Login
from corral.web.users.sessions import login_of

PATIENCE_S: Final = 20.0


async def mint(user: str, seconds: int) -> Login:
    """A token of a user; the token is in no argument list.

    Args:
        user: the name of a person (``person``).
        seconds: how long it is good.

    Raises:
        CorralError: UNREACHABLE, slurmctld makes none now; LOGIN_REFUSED, it is not this user's.
    """
    argv = ("scontrol", "token", f"username={user}", f"lifespan={seconds}")
    try:
        done = await process.run(argv, timeout=PATIENCE_S)
    except (OSError, TimeoutError):
        done = None
    if done is None or done.status:
        raise CorralError(
            Code.UNREACHABLE,
            "Slurm makes no token now",
            hint="on the controller: systemctl status slurmctld",
        )
    login = login_of(done.out)
    if login.user != user:
        raise CorralError(
            Code.LOGIN_REFUSED, "Slurm made the token of another user", hint="log in again"
        )
    return login
