"""A person's own password, and whether the account is open, asked of PAM by root.

PAM's own delay after a wrong password is turned off: the page answers each refusal after the same
time (``routes.REFUSED_S``), so that a name that nobody has takes as long as a wrong password.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from corral.errors import Code, CorralError

SERVICE: Final = "corral-web"
"""/etc/pam.d/corral-web (``roles/services/page_login.py``)."""
_NO_EMPTY: Final = 0x0001
"""PAM_DISALLOW_NULL_AUTHTOK: an account without a password lets nobody in."""
_SILENT: Final = 0x8000
_FAIL_DELAY: Final = 10
_SUCCESS: Final = 0
_CHANGE: Final = 12
"""PAM_NEW_AUTHTOK_REQD."""


def _no_delay(_status: int, _microseconds: int, _data: int) -> None:
    return


_WITHOUT_DELAY: Final = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)(
    _no_delay
)


def right(user: str, password: str, service: str = SERVICE) -> bool:
    """Whether it is the user's password.

    Args:
        user: a person's name (``person``).
        password: what was typed; "" and what C would cut are wrong.
        service: PAM's.
    """
    if not password or "\0" in password:
        return False
    with _asked(user, service, password) as (pam, handle):
        return pam.PAM_AUTHENTICATE(handle, _NO_EMPTY | _SILENT) == _SUCCESS


def check_account(user: str, *, by_password: bool, service: str = SERVICE) -> None:
    """Refuse an account that is closed now.

    Args:
        user: a person's name.
        by_password: the password was used, so that one that has run out counts.
        service: PAM's.

    Raises:
        CorralError: FORBIDDEN.
    """
    with _asked(user, service, None) as (pam, handle):
        status = pam.PAM_ACCT_MGMT(handle, _SILENT)
    if status == _SUCCESS or (status == _CHANGE and not by_password):
        return
    message = f"the account of {user} is not open on this cluster"
    hint = "it has expired, is closed, or is in none of its groups: ask who runs the cluster"
    if status == _CHANGE:
        message, hint = (
            f"the password of {user} must be changed first",
            "log in by ssh to change it",
        )
    raise CorralError(Code.FORBIDDEN, message, hint=hint)


@contextmanager
def _asked(user: str, service: str, password: str | None) -> Generator[tuple[Any, Any]]:
    """PAM, and a transaction of it."""
    if not Path(f"/etc/pam.d/{service}").is_file():  # PAM would take the one called other
        raise _unusable(f"no /etc/pam.d/{service}")
    pam = _library()
    answers = () if password is None else (password,)
    conversation = pam.new_simple_password_conv(answers, "utf-8")
    try:
        handle = pam.pam_start(service, user, conversation)
    except pam.PAMError as error:
        raise _unusable(str(error)) from error
    try:
        delay = ctypes.cast(_WITHOUT_DELAY, ctypes.c_char_p)
        if pam.PAM_SET_ITEM(handle, _FAIL_DELAY, delay) != _SUCCESS:
            raise _unusable("PAM_FAIL_DELAY")
        yield pam, handle
    finally:
        pam.PAM_END(handle, _SUCCESS)


def _library() -> Any:
    """It has no types, and loads libpam at its import."""
    try:
        import pamela  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs]
    except (OSError, AttributeError) as error:
        raise _unusable(str(error)) from error
    return pamela


def _unusable(why: str) -> CorralError:
    return CorralError(
        Code.COMMAND_FAILED,
        "the controller's PAM does not answer",
        tail=why,
        hint="on the controller: journalctl -u 'corral-web-login@*'",
    )
