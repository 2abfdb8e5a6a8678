"""Data sets on shared storage: shards written there, and how fast nodes read them."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast

from corral import shards
from corral.errors import BAD_JSON, Code, CorralError
from corral.events import Emit, Event, Kind
from corral.hosts.fleet import Fleet
from corral.hosts.quote import Script, call, join, sh
from corral.hosts.transport import Result, check
from corral.jobs.follow import as_user
from corral.jobs.upload.project import absolute, ways
from corral.jobs.upload.user_folder import not_ours, roof_script
from corral.runtime.tasks import concurrently
from corral.runtime.threads import abandonable
from corral.state.storage.job_folders import DATA, user_folder

WRITE_S: Final = 6 * 3600.0

_PROGRAM: Final = "jobs/user.sh"


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set on shared storage.

    Attributes:
        folder: where.
        shards: how many tar files.
        samples: in all of them.
        bytes: of all of them.
        new: shards that were written now; the others were there.
    """

    folder: str
    shards: int
    samples: int
    bytes: int
    new: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast one node read: bytes and samples in so many seconds."""

    node: str
    bytes: int
    samples: int
    seconds: float

    @property
    def megabytes_per_second(self) -> float:
        """MB (1e6 bytes) a second."""
        return self.bytes / 1e6 / self.seconds

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds


def place_of(mount: str, user: str, name: str) -> str:
    """Where a user's data set of that name is: MOUNT/corral/data/USER/NAME."""
    return f"{user_folder(mount, DATA, user)}/{name}"


async def shard_there(
    fleet: Fleet,
    controller: str,
    user: str,
    *,
    mount: str,
    folder: str,
    name: str,
    size: int,
    labels: bool,
    emit: Emit,
) -> DataSet:
    """Make shards of a folder on shared storage: the controller reads and writes it.

    Raises:
        CorralError: COMMAND_FAILED, it cannot be read or written.
    """
    out = place_of(mount, user, name)
    words = ["write", folder, out, "--size", str(size), *(["--labels"] if labels else [])]
    script = join(
        [roof_script(mount, DATA, user), as_user(user, sh("python3 - {w}", w=words))], " && "
    )
    entries: list[Mapping[str, Any]] = []
    total: int | None = None

    def line(text: str) -> None:
        nonlocal total
        entry = _json(text)
        if "shards" in entry:
            total = int(entry["shards"])
        elif "file" in entry:
            entries.append(entry)
            emit(_shard_event(entry["file"], len(entries), total or 0, new=bool(entry.get("new"))))

    result = await fleet.run(controller, script, stdin=program(), timeout=WRITE_S, on_line=line)
    if (taken := not_ours(result)) is not None:
        raise taken
    check(result, f"making shards of {folder}", hint="can the job user read it, and write there?")
    if total is None or len(entries) != total:
        raise CorralError(
            Code.PARSE_FAILED,
            f"{len(entries)} shards of {out} were reported, of {total or 'an unknown number'}",
            node=controller,
            tail=result.tail,
            hint="run it again: shards that are complete stay",
        )
    return _data_set(out, entries, sum(bool(e.get("new")) for e in entries))


async def shard_here(
    fleet: Fleet,
    controller: str,
    user: str,
    *,
    mount: str,
    folder: Path,
    name: str,
    size: int,
    labels: bool,
    emit: Emit,
) -> DataSet:
    """Make shards of a folder of this machine, and send those that are not there yet.

    Raises:
        CorralError: USAGE, no samples in it; NOT_GOOD, it changed meanwhile; COMMAND_FAILED.
    """
    try:
        tree = (await asyncio.to_thread(ways, absolute(folder)))[-1]
        samples = await abandonable(shards.samples_of, tree.root, labels=labels, opened=tree.handle)
    except shards.ShardError as error:
        raise CorralError(
            Code.USAGE, str(error), hint="a sample is the files of one name: 0001.png, 0001.cls"
        ) from error
    plan = shards.planned(samples, name, size)
    out = place_of(mount, user, name)
    listed = await fleet.run(
        controller,
        join(
            [
                roof_script(mount, DATA, user),
                as_user(user, call(_PROGRAM, "shards_kept", out)),
            ],
            " && ",
        ),
    )
    if (taken := not_ours(listed)) is not None:
        raise taken
    there = kept_entries(check(listed, f"looking at {out}").stdout)
    entries: list[Mapping[str, Any]] = []
    new = 0
    for number, shard in enumerate(plan, 1):
        entry = there.get(shard.plan)
        fresh = entry is None or entry["file"] != shard.name
        if entry is None or fresh:
            entry = await _send(fleet, controller, user, out, shard)
            new += 1
        entries.append(entry)
        emit(_shard_event(shard.name, number, len(plan), new=fresh))
    index = shards.index_of(name, entries)
    put = sh("cd {f} && cat > .{i}.new && mv -f .{i}.new {i}", f=out, i=Script(shards.INDEX))
    check(await fleet.run(controller, as_user(user, put), stdin=index), "writing the index")
    return _data_set(out, entries, new)


def kept_entries(text: str) -> dict[str, dict[str, Any]]:
    """Complete shards that are there, by the digest of their plan, from what the node listed."""
    entries: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        size, _, about = line.partition(" ")
        entry = _json(about)
        if size.isdecimal() and entry.get("bytes") == int(size) and "plan" in entry:
            entries[str(entry["plan"])] = entry
    return entries


async def rates(
    fleet: Fleet, nodes: Sequence[str], user: str, *, folder: str, seconds: float
) -> tuple[Rate, ...]:
    """How fast nodes read a data set, all of them at once, each its own share.

    Raises:
        CorralError: NOT_FOUND, no data set there; COMMAND_FAILED: of the first node that failed.
    """

    async def rate_of(index: int, node: str) -> Rate:
        words = ["read", folder, "--seconds", f"{seconds:g}", "--share", str(index)]
        words += ["--of", str(len(nodes))]
        script = as_user(user, sh("python3 - {w}", w=words))
        result = await fleet.run(node, script, stdin=program(), timeout=seconds + 120)
        return _rate(node, folder, result)

    return tuple(await concurrently(*(rate_of(i, node) for i, node in enumerate(nodes))))


def program() -> bytes:
    """The program that nodes run: ``corral.shards``, which needs nothing of Corral."""
    return resources.files("corral").joinpath("shards.py").read_bytes()


def _rate(node: str, folder: str, result: Result) -> Rate:
    if "FileNotFoundError" in result.stderr:
        raise CorralError(
            Code.NOT_FOUND,
            f"{folder} holds no data set that the job user can read",
            node=node,
            tail=result.tail,
            hint="make one with: corral data shard FOLDER",
        )
    figures = _json(check(result, f"reading {folder}").stdout.strip().rpartition("\n")[2])
    try:
        return Rate(node, int(figures["bytes"]), int(figures["samples"]), float(figures["seconds"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CorralError(
            Code.PARSE_FAILED, "the reader gave no figures", node=node, tail=result.tail
        ) from error


async def _send(
    fleet: Fleet, controller: str, user: str, folder: str, shard: shards.Shard
) -> Mapping[str, Any]:
    try:
        data = await abandonable(_packed, shard)
    except (shards.ShardError, OSError) as error:
        raise CorralError(
            Code.NOT_GOOD, str(error), hint="run it again when nobody writes there"
        ) from error
    digest = hashlib.sha256(data).hexdigest()
    entry = shards.entry_of(shard, len(data), digest)
    about = json.dumps(entry)
    sum_line = f"{digest}  .{shard.name}.part"
    script = call(_PROGRAM, "shard_put", folder, shard.name, sum_line, len(data), about)
    sent = await fleet.run(controller, as_user(user, script), stdin=data, timeout=WRITE_S)
    check(sent, f"writing {folder}/{shard.name}", hint="is there room on the shared storage?")
    return entry


def _packed(shard: shards.Shard) -> bytes:
    out = io.BytesIO()
    shards.pack(shard, out)
    return out.getvalue()


def _data_set(folder: str, entries: Sequence[Mapping[str, Any]], new: int) -> DataSet:
    return DataSet(
        folder,
        len(entries),
        sum(int(e["samples"]) for e in entries),
        sum(int(e["bytes"]) for e in entries),
        new,
    )


def _shard_event(name: str, number: int, total: int, *, new: bool) -> Event:
    words = f"{PurePosixPath(name).name} {'written' if new else 'is there'} ({number} of {total})"
    return Event(Kind.NOTE, "data", message=words)


def _json(text: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(text)
    except BAD_JSON:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
