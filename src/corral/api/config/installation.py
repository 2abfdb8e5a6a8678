"""Which Corral runs, where it came from, and whether there is a newer one there.

Only the place that this Corral came from is asked, and no package index: Corral is in none, so a
package of its name there is somebody else's.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shlex
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote

from corral.errors import CorralError
from corral.extras import DISTRIBUTION, direct_url, own_version, wheel_prefix
from corral.hosts import process

_NO_REMOTE: Final = 2
"""git remote's exit status for an unknown remote (git-remote(1))."""
LIMIT_S: Final = 5.0
_NUMBERS: Final = r"\d{1,6}(?:\.\d{1,6}){1,5}"
_VERSION: Final = re.compile(_NUMBERS)
_TAG: Final = re.compile(rf"refs/tags/v?({_NUMBERS})$", re.M)
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"]*", re.I)
_INSTALLERS: Final = {
    "pipx_metadata.json": "pipx install --force",
    "uv-receipt.toml": "uv tool install --force",
}
"""A file that an installer leaves in the environment that it makes for Corral, and its command."""

Kind = Literal["checkout", "repository", "file", "address", "index", "source"]


@dataclass(frozen=True, slots=True)
class Installation:
    """The Corral that runs.

    Attributes:
        version: its version, "" where it runs from a bare source folder.
        python: the version of its Python.
        kind: what it was installed from.
        origin: the folder, file or address, without a login; "" where nothing was recorded: from an
            index, or from a folder of wheels (``--find-links``).
    """

    version: str
    python: str
    kind: Kind
    origin: str


@dataclass(frozen=True, slots=True)
class NewerRelease:
    """Whether there is a newer release where this one came from.

    Attributes:
        state: ``unknown`` where nobody could be asked.
        newest: the newest release there, "" where unknown.
        asked: what was asked.
        reason: why it is unknown.
        upgrade: the command that gets it, or the file where the installer is unknown.
    """

    state: Literal["current", "newer", "unknown"]
    asked: str
    newest: str = ""
    reason: str = ""
    upgrade: str = ""


def installation() -> Installation:
    """The Corral that runs; asks nobody."""
    try:
        version = own_version()
    except PackageNotFoundError:
        return Installation("", platform.python_version(), "source", _source())
    kind, origin = _origin(direct_url())
    return Installation(version, platform.python_version(), kind, origin)


def _source() -> str:
    return str(Path(__file__).parents[3])


def _origin(origin: dict[str, Any]) -> tuple[Kind, str]:
    """By PEP 610: absent for what an index gave."""
    address = str(origin.get("url", ""))
    local = address.startswith("file://")
    path = unquote(address.removeprefix("file://")) if local else without_login(address)
    if not address:
        return "index", ""
    if "vcs_info" in origin:
        return "repository", without_login(address)
    if "dir_info" in origin:
        return "checkout", path
    return ("file" if local else "address"), path


def without_login(address: str) -> str:
    """An address without password, token and query; of ssh the user stays."""
    scheme, mark, rest = address.partition("://")
    if not mark:
        return address
    place = re.split(r"[?#]", rest, maxsplit=1)[0]
    host = place.partition("/")[0]
    if "@" not in host and re.search(r":(?!\d*$)", host):
        host, place = rest, rest  # a password with / ? or #
    login = host.rpartition("@")[0]
    place = place[len(login) + 1 :] if "@" in host else place
    user = login.partition(":")[0]
    keep = f"{user}@" if user and scheme.lower().endswith("ssh") else ""
    return f"{scheme}://{keep}{re.split('[?#]', place, maxsplit=1)[0]}"


async def newer_release(here: Installation) -> NewerRelease:
    """Ask where this Corral came from; ends within seconds, and never fails for want of a network.

    Args:
        here: what runs.
    """
    try:
        async with asyncio.timeout(LIMIT_S):
            return await _asked(here)
    except TimeoutError:
        return NewerRelease("unknown", here.origin, reason=f"no answer in {LIMIT_S:.0f} s")
    except (CorralError, OSError) as error:
        return NewerRelease("unknown", here.origin, reason=str(error))


async def _asked(here: Installation) -> NewerRelease:
    match here.kind:
        case "checkout" | "source":
            folder = here.origin
            remote = await _git(folder, "remote", "get-url", "origin")
            if remote.status:
                none = "this checkout has no remote `origin` to ask"
                reason = none if remote.status == _NO_REMOTE else _last(remote.err)
                return NewerRelease("unknown", folder, reason=reason)
            asked = without_login(remote.out.strip())
            return await _tags(here, folder, "origin", asked, _pulled(folder))
        case "repository":
            upgrade = _installed_by(f"git+{here.origin}")
            return await _tags(here, "/", here.origin, here.origin, upgrade)
        case "file":
            return _next_to(here)
        case "index":
            reason = (
                f"no record of where it came from, and Corral is in no package index: "
                f"a package {DISTRIBUTION} of one is not this Corral"
            )
            return NewerRelease("unknown", "", reason=reason)
        case "address":
            reason = "it was installed from one file, which names no list of releases"
            return NewerRelease("unknown", here.origin, reason=reason)


async def _git(folder: str, *words: str) -> process.Ended:
    batch = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        "GIT_ASKPASS": "true",
        "LC_ALL": "C",
    }
    argv = ["git", "-C", folder, *words]
    return await process.run(argv, timeout=LIMIT_S, env={**os.environ, **batch})


async def _tags(
    here: Installation, folder: str, remote: str, shown: str, upgrade: str
) -> NewerRelease:
    """Tags of a remote; never its address with a token: all users see a program's arguments."""
    answer = await _git(folder, "ls-remote", "--tags", "--refs", "--", remote)
    if answer.status:
        reason = _ADDRESS.sub(lambda match: without_login(match[0]), _last(answer.err))
        return NewerRelease("unknown", shown, reason=reason)
    return compared(here, _TAG.findall(answer.out), shown, upgrade)


def _next_to(here: Installation) -> NewerRelease:
    """Other wheels in the folder of the one that this Corral was installed from."""
    folder = Path(here.origin).parent
    name = re.compile(rf"{re.escape(wheel_prefix())}({_NUMBERS})-py3-none-any\.whl")
    wheels = {match[1]: file for file in folder.iterdir() if (match := name.fullmatch(file.name))}
    newest = max(wheels, key=_numbers, default="")
    upgrade = _installed_by(str(wheels[newest])) if newest else ""
    return compared(here, list(wheels), str(folder), upgrade)


def _installed_by(what: str) -> str:
    """The command of the installer that made this environment; without one, what is to install."""
    commands = [text for file, text in _INSTALLERS.items() if (Path(sys.prefix) / file).is_file()]
    if not commands:
        return f"{shlex.quote(what)}, installed as this one was (docs/guide/upgrading.md)"
    return f"{commands[0]} {shlex.quote(what)}"


def _pulled(folder: str) -> str:
    """The command for a checkout: its version is its environment's, which a pull leaves alone."""
    if Path(sys.prefix).resolve() == (Path(folder) / ".venv").resolve():
        renewed = "bash -c '. .ci/setup.sh && need_venv requirements.lock'"
        return f"cd {shlex.quote(folder)} && git pull && {renewed}"
    then = _installed_by(folder)
    both = ", and then " if then.startswith(shlex.quote(folder)) else " && "
    return f"git -C {shlex.quote(folder)} pull{both}{then}"


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no answer"


def _numbers(version: str) -> tuple[int, ...]:
    """In order; 0.2 and 0.2.0 are the same version."""
    return tuple(int(number) for number in re.sub(r"(\.0+)+$", "", version).split("."))


def compared(here: Installation, versions: list[str], asked: str, upgrade: str) -> NewerRelease:
    """What a list of releases means for the version that runs; prereleases are left out."""
    releases = [version for version in versions if _VERSION.fullmatch(version)]
    if not releases:
        return NewerRelease("unknown", asked, reason="it has no release")
    newest = max(releases, key=_numbers)
    own = _VERSION.match(here.version)
    if own is not None and _numbers(newest) > _numbers(own[0]):
        return NewerRelease("newer", asked, newest, upgrade=upgrade)
    return NewerRelease("current", asked, newest)
