"""How a script becomes root on a node: as root, by sudo without a password, by sudo with one.

With a password the first line of stdin is the password and the frame follows it. ``sudo -S`` reads
a line for each of its tries, so a wrong password would make it take the script's first lines for
passwords, and where sudo asks for none the password would be the script's first line. Hence three
steps, each with ``-k``, so that no earlier success changes what the next step does (sudo(8)):

1. does it go without? Then the password is dropped;
2. is the password right? Asked with a stdin that ends after that one line, so one wrong password is
   one failed attempt and no more;
3. the password, and after it all that is left of stdin. sudo reads its line a byte at a time
   (tgetpass.c, getln), so what follows is the frame's.

``printf`` is a builtin of every sh that Debian, Ubuntu or busybox have: the password is in no
argument list. Where it is a program, the script refuses.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from corral.agents import body, program

_ASKED: Final = body(program("sudo-password.sh")).rstrip("\n")

_WANTS: Final = re.compile(
    r"sudo: a password is required"
    r"|sudo: a terminal is required to read the password"
    r"|sudo: interactive authentication is required"  # sudo-rs, which Ubuntu has from 25.10 on
)


def as_root(remote: str) -> str:
    """The remote command that runs ``remote`` (sh text) by sudo without a password.

    ``exec`` and ``env`` make it work in csh and fish too; the language makes sudo's words readable.
    """
    return f"exec env LC_ALL=C sudo -n -- /bin/sh -c {shlex.quote(remote)}"


def as_root_with_password(remote: str) -> str:
    """The same, with a password as the first line of stdin, used only when sudo asks for one."""
    return f"exec /bin/sh -c {shlex.quote(_ASKED)} {shlex.quote(remote)}"


def wants_password(stderr: str) -> bool:
    """True when sudo reported that it needs a password."""
    return _WANTS.search(stderr) is not None


def from_sudo(stderr: str) -> bool:
    """True when sudo itself printed it: the connection worked, and sending again does not help."""
    return re.search(r"^(sudo: |Sorry, |sudo-rs: )|sudoers file", stderr, re.MULTILINE) is not None
