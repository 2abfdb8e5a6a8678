"""Wheels that a plan sends to machines: fetched by this machine's pip, kept in the state folder.

pip's own settings (index, certificates, proxies, find-links) are those of the user. Each file must
have the digest that the lock has; what is kept can be removed at any time and is fetched again.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts import process
from corral.plan.model import Plan
from corral.roles.services.corral_wheels import own_wheel
from corral.state.base import HERE
from corral.state.pyenv import WHEELS, Wheel
from corral.state_dir import state_dir

CACHE: Final = "packages"
FETCH_S: Final = 1500.0
# Any glibc that a supported system has (2.35 on Ubuntu 22.04) runs these (PEP 600).
_GLIBC: Final = (28, 27, 26, 24, 17, 12, 5)
_PYTHON_TAG: Final = re.compile(r"-cp(3\d+)-cp3\d+-")


def cached(path: str) -> Path:
    """Where a file that a plan names is on this machine; absolute ones are where they are."""
    return state_dir() / CACHE / path


async def fetch_wheels(plan: Plan, emit: Emit) -> None:
    """Fetch the wheels of a plan that this machine does not have yet.

    Raises:
        CorralError: MISSING_TOOL, no pip; NOT_FOUND, the index does not have them.
    """
    await fetch(wheels_in(plan), emit)


async def fetch(wheels: Sequence[Wheel], emit: Emit) -> None:
    """Fetch those of these wheels, all for one Python, that this machine does not have yet.

    Raises:
        CorralError: MISSING_TOOL, no pip; NOT_FOUND, the index does not have them.
    """
    missing = [w for w in wheels if not await asyncio.to_thread(_good, cached(w.place), w.sha256)]
    missing = [w for w in missing if not await asyncio.to_thread(_own, w)]
    if not missing:
        return
    emit(Event(Kind.NOTE, "packages", message=f"pip fetches {len(missing)} wheels"))
    folder = state_dir() / CACHE
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wheels-", dir=folder) as name:
        await _download(missing, Path(name), _python(wheels))
        await asyncio.to_thread(_keep, missing, Path(name))


def wheels_in(plan: Plan) -> tuple[Wheel, ...]:
    """The wheels that a plan's changes ask this machine for."""
    wheels: dict[str, Wheel] = {}
    for stage in plan.stages:
        for entry in stage.changes:
            for ref in entry.change.secrets:
                if ref.node == HERE and ref.path.startswith(f"{WHEELS}/"):
                    _, digest, file = ref.path.split("/")
                    wheels[file] = Wheel(file, digest)
    return tuple(wheels.values())


def arguments(folder: Path, python: str) -> list[str]:
    """What pip gets: exactly these files, for a machine with this Python."""
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in _GLIBC]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "any"]
    return [
        *("download", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:"),
        *("--ignore-requires-python", "--no-input", "--disable-pip-version-check"),
        *("--python-version", python, "--implementation", "cp"),
        *(word for abi in (f"cp{python}", "abi3", "none") for word in ("--abi", abi)),
        *(word for platform in platforms for word in ("--platform", platform)),
        *("--dest", str(folder), "--requirement", str(folder / "requirements.txt")),
    ]


async def _download(wheels: Sequence[Wheel], folder: Path, python: str) -> None:
    lines = "".join(f"{w.requirement} --hash=sha256:{w.sha256}\n" for w in wheels)
    await asyncio.to_thread((folder / "requirements.txt").write_text, lines)
    command = [*_pip(), *arguments(folder, python)]
    try:
        ended = await process.run(command, timeout=FETCH_S)
    except TimeoutError as error:
        raise CorralError(
            Code.TIMED_OUT,
            f"pip has not fetched {len(wheels)} wheels within {FETCH_S:.0f} s",
            command="pip download",
            hint="look at your pip settings: pip config list",
        ) from error
    if ended.status != 0:
        raise CorralError(
            Code.NOT_FOUND,
            "pip could not fetch the wheels that the cluster needs",
            command="pip download",
            status=ended.status,
            tail="\n".join(ended.err.strip().splitlines()[-8:]),
            hint="pip config list shows which index it asks; a mirror must hold these versions",
        )


def _pip() -> list[str]:
    """Pip of this Python, else the one on the PATH.

    Raises:
        CorralError: MISSING_TOOL.
    """
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        path = shutil.which(name)
        if path:
            return [path]
    raise CorralError(
        Code.MISSING_TOOL,
        "pip is not installed on this machine, and the cluster needs Python packages",
        hint="apt install python3-pip, or: python3 -m ensurepip",
    )


def _python(wheels: Sequence[Wheel]) -> str:
    """The Python the wheels are for, ``313``; each lock has some that are for one only."""
    tags: Mapping[str, None] = dict.fromkeys(
        match[1] for wheel in wheels if (match := _PYTHON_TAG.search(wheel.file))
    )
    newest = max(tags, key=int, default="3")
    return newest


def _keep(wheels: Sequence[Wheel], folder: Path) -> None:
    for wheel in wheels:
        file = folder / wheel.file
        if not _good(file, wheel.sha256):
            raise CorralError(
                Code.NOT_GOOD,
                f"{wheel.file} does not match the lock",
                hint="the index may hold another build: pip config list shows which one it is",
            )
        place = cached(wheel.place)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.replace(place)


def _own(wheel: Wheel) -> bool:
    """Put Corral's own wheel where the plan looks for it.

    Raises:
        CorralError: STALE_PLAN, the plan was made by another Corral.
    """
    if not wheel.file.startswith("corral-"):
        return False
    made, data = own_wheel()
    if made != wheel:
        raise CorralError(
            Code.STALE_PLAN,
            "the plan brings another Corral to the controller than the one that applies it",
            hint="re-create it with: corral plan FILE",
        )
    place = cached(wheel.place)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = place.with_suffix(".new")
    new.write_bytes(data)
    new.replace(place)
    return True


def _good(path: Path, digest: str) -> bool:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == digest
    except OSError:
        return False
