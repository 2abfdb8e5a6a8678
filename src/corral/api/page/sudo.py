"""What the page's server gets of the person who starts it: sudo's password (decision 0057)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from corral.apply.session import Session
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.hosts.transport import Result
from corral.passwords import SUDO, person
from corral.spec.hostlist import fold

LOOK_S: Final = 10.0
"""How long an unresponsive machine may delay the page. Asking a person is not counted."""


async def sudo_of(session: Session) -> dict[str, Any] | None:
    """The sudo password, where a machine of the cluster wants one, and which machines may have it.

    Whoever is there is asked once, and only when a machine's sudo has reported that it wants one.

    Args:
        session: the cluster.

    Returns:
        ``password`` and ``machines`` (``SshTarget.place``); None where no password is known.

    Raises:
        CorralError: USAGE, the password cannot be read or sent.
    """
    reached = {n: t for n, t in session.targets().items() if t.user != "root"}
    if reached and person().known(SUDO) is None:
        _report(await session.fleet.all(sh(":"), reached, timeout=LOOK_S))
    password = person().known(SUDO)
    if password is None:
        return None
    return {"password": password, "machines": [t.place(n) for n, t in reached.items()]}


def _report(answers: Mapping[str, Result | CorralError]) -> None:
    """Report which machines the page will not reach as root; the page reports it for each, too."""
    nodes_by_message: dict[str, list[str]] = {}
    for node, answer in answers.items():
        if isinstance(answer, CorralError):
            nodes_by_message.setdefault(answer.message, []).append(node)
    for message, nodes in nodes_by_message.items():
        person().show(fold(nodes), message)
