"""A Python environment on shared storage, one for each lock, made once and used again.

A lock becomes the text that pip reads, with every package pinned. Its digest, the Python release
and the architecture name the environment, so that two locks never share one. It is made on the
controller, as the job's user and with that user's own settings of pip, under a lock file: jobs that
need the same one wait for the first.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import shutil
import zipfile
from importlib import metadata
from typing import Final

from corral.agents import program
from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts import process
from corral.hosts.fleet import Fleet
from corral.hosts.quote import call, join
from corral.hosts.transport import Result
from corral.jobs.batch.fabric import exports
from corral.jobs.follow import as_user
from corral.jobs.upload.manifest import Named
from corral.jobs.upload.user_folder import (
    ENVS,
    not_ours,
    roof_script,
    user_folder,
)

BUILD_S: Final = 3600.0
_PINNED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._ -]*\])?\s*(===?|@)\s*\S+")
_OPTION: Final = re.compile(r"--(no-index|find-links|index-url|extra-index-url|only-binary|hash)\b")
_NO_TOOL: Final = 7
_FAILED: Final = 8

_PROGRAM: Final = "jobs/user.sh"


async def requirements(lock: Named) -> bytes:
    """What pip is given for a lock.

    Raises:
        CorralError: USAGE, something in it is not pinned; MISSING_TOOL, a uv.lock without uv here;
            COMMAND_FAILED, uv could not read it; NOT_FOUND.
    """
    if lock.path.name == "uv.lock":
        return await _exported(lock)
    text = await asyncio.to_thread(lock.read)
    loose = unpinned(text.decode(errors="replace"))
    if loose:
        raise CorralError(
            Code.USAGE,
            f"{lock.path} is not a lock: {loose[0]!r} is not pinned",
            hint="pin all of it with `uv pip compile` or `pip freeze`, or send it without an "
            "environment: --environment none",
        )
    return text


def unpinned(text: str) -> list[str]:
    """Lines of a requirements file that leave open which release is installed."""
    return [ln for ln in _lines(text) if not (_PINNED.match(ln) or _OPTION.match(ln))]


def packages(text: str) -> dict[str, str]:
    """What a requirements file pins: release or address by package, in the form of PEP 503."""
    matches = (
        re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)[^=@]*(?:===?|@)\s*([^\s;]+)", ln)
        for ln in _lines(text)
        if _PINNED.match(ln)
    )
    return {re.sub(r"[-_.]+", "-", m[1]).lower(): m[2] for m in matches if m}


def seen_words(name: str, text: str) -> str:
    """What a job with this environment sees, in words; "" for one that would hold nothing.

    The nodes' own packages, PyTorch before all, are hidden from it: nobody should have to guess.
    """
    pinned = packages(text)
    if not pinned:
        return ""
    torch = pinned.get("torch")
    count = "1 package" if len(pinned) == 1 else f"{len(pinned)} packages"
    own = f"torch {torch} of it" if torch else "no torch"
    return (
        f"Python of {name}: {count}, {own}; packages of the nodes' own Python are "
        "hidden (--environment none shows them)"
    )


def _lines(text: str) -> list[str]:
    joined = re.sub(r"\\\n", " ", text)
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.splitlines()]
    return [line for line in lines if line]


async def _exported(lock: Named) -> bytes:
    if shutil.which("uv") is None:
        raise CorralError(
            Code.MISSING_TOOL,
            f"{lock.path} needs uv on this machine to be read",
            hint="install uv; or: uv export --no-emit-project > requirements.txt elsewhere, and "
            "--environment requirements.txt; or --environment none",
        )
    argv = ["uv", "export", "--frozen", "--no-emit-project", "--no-dev", "--no-header", "--quiet"]
    folder = await asyncio.to_thread(lock.tree.opened, lock.inside.rpartition("/")[0])
    ended = await process.run(argv, timeout=120, folder=folder.path)
    if ended.status != 0:
        raise CorralError(
            Code.COMMAND_FAILED,
            f"uv could not read {lock.path}",
            command="uv export --frozen",
            status=ended.status,
            tail="\n".join(ended.stderr.decode(errors="replace").splitlines()[-10:]),
            hint="re-create it with: uv lock",
        )
    return ended.stdout


async def ensure(
    fleet: Fleet,
    controller: str,
    user: str,
    *,
    mount: str,
    text: bytes,
    env: dict[str, str],
    emit: Emit,
) -> str:
    """The path of the environment for these requirements, made where it is not there yet.

    Args:
        fleet: the cluster's machines.
        controller: where it is made.
        user: whose it is.
        mount: the shared storage.
        text: the requirements.
        env: the job's own environment: its PIP_ variables go to pip.
        emit: receives an event when it is made, which takes a while.

    Raises:
        CorralError: COMMAND_FAILED, with pip's last lines; MISSING_TOOL, no Python with venv there.
    """
    base, digest = user_folder(mount, ENVS, user), hashlib.sha256(text).hexdigest()[:16]
    find = call(_PROGRAM, "environment_ready", base, digest, _NO_TOOL)
    roof = roof_script(mount, ENVS, user)
    result = await fleet.run(controller, join([roof, as_user(user, find)], " && "), timeout=60)
    if result.ok and not result.stdout:
        emit(Event(Kind.NOTE, "environment", controller, "is made from the lock, once"))
        pip = await asyncio.to_thread(_pip)
        # An index's address may hold a password: as an argument it would be in ps for all users.
        settings = exports({k: v for k, v in env.items() if k.startswith("PIP_")}).encode()
        build = call(
            _PROGRAM,
            "environment_make",
            *(base, digest, _NO_TOOL, _FAILED, program("jobs/pip_folder.py")),
            *(len(settings), len(pip), len(text)),
        )
        result = await fleet.run(
            controller, as_user(user, build), stdin=settings + pip + text, timeout=BUILD_S
        )
    # Nothing but the path is printed: what pip and packages print goes to standard error.
    path = result.stdout.removesuffix("\n")
    if result.ok and re.fullmatch(rf"{re.escape(base)}/{digest}-py[0-9.]+-\w+", path):
        return path
    raise not_ours(result) or _not_made(controller, user, result)


def _not_made(controller: str, user: str, result: Result) -> CorralError:
    if result.status == _NO_TOOL:
        return CorralError(
            Code.MISSING_TOOL,
            "no Python with venv is there to make the environment of the lock",
            node=controller,
            tail=result.tail,
            hint="install python3 there (corral exec), or run without: --environment none",
        )
    return CorralError(
        Code.COMMAND_FAILED,
        "the environment of the lock could not be made",
        node=controller,
        command="pip install -r requirements.txt",
        status=result.status,
        tail="\n".join(result.stderr.splitlines()[-15:]),
        hint=f"pip there reads /etc/pip.conf and {user}'s own settings; --env PIP_INDEX_URL=... "
        "gives it others; --environment none runs with the nodes' own Python",
    )


def _pip() -> bytes:
    """This machine's own pip as one archive that Python runs; empty where there is none."""
    try:
        files = metadata.files("pip") or []
    except metadata.PackageNotFoundError:
        return b""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            if file.parts[0] == "pip" and file.suffix != ".pyc":
                archive.writestr(str(file), file.read_binary())
    return out.getvalue()
