"""Use cases of files that somebody else wrote: read them, judge them, correct copies of them."""

from __future__ import annotations

import difflib
import json
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast

from corral.api.output import write_folder, write_output
from corral.errors import Code, CorralError, cannot_read
from corral.inspect.facts import Facts
from corral.slurm.adopt.conversion import cluster_file
from corral.slurm.adopt.machine import Machine
from corral.slurm.adopt.review import bytes_of, corrected, judge, source_of
from corral.slurm.adopt.source import CONFS, Kind, Source, is_template_name, kind_of, placeholder
from corral.slurm.adopt.view import NAMES_AT_MOST, NOT_GIVEN, Existing, names_in_all
from corral.slurm.version import SlurmVersion
from corral.spec.findings import Finding, shown
from corral.spec.load import load_text

BYTES_AT_MOST: Final = 8 * 1024 * 1024
_SECRET: Final = re.compile(r"(?i)((?:StoragePass|JobCompPass)[ \t]*=[ \t]*)[^\r\n]+")


@dataclass(frozen=True, slots=True)
class Correction:
    """One file as it was and as it is to be.

    Attributes:
        name: the file as the user named it.
        before: its bytes; None for a file that is not there yet.
        after: its bytes with the findings fixed.
        mode: permission bits it is to have; None leaves them.
    """

    name: str
    before: bytes | None
    after: bytes
    mode: int | None = None

    def diff(self) -> str:
        """A unified diff; passwords in it are dots."""
        old = (self.before or b"").decode("utf-8", "backslashreplace").splitlines(keepends=True)
        new = self.after.decode("utf-8", "backslashreplace").splitlines(keepends=True)
        was = self.name if self.before is not None else "/dev/null"
        lines = difflib.unified_diff(old, new, was, self.name)
        text = "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
        return _SECRET.sub(r"\1...", text)


@dataclass(frozen=True, slots=True)
class Opinion:
    """What is to be reported about given files.

    Attributes:
        existing: the files as they were read.
        findings: everything that is wrong, by file and line.
        fixable: whether ``corrections`` fixes it, for each finding.
        corrections: files that change when the findings are fixed.
    """

    existing: Existing
    findings: tuple[Finding, ...]
    fixable: tuple[bool, ...]
    corrections: tuple[Correction, ...]


def lint_existing(
    paths: Sequence[Path | str],
    *,
    version: str = "",
    machines: Mapping[str, Machine] | None = None,
) -> Opinion:
    """Judge files that somebody else wrote.

    Args:
        paths: a folder such as /etc/slurm, or single files.
        version: the Slurm in use, such as "24.11"; "" takes that of the machines, else none: then
            keys are compared with all releases.
        machines: facts to compare with, by node name.

    Raises:
        CorralError: NOT_FOUND or USAGE, a path cannot be read; PARSE_FAILED, no version.
    """
    existing = read_existing(paths, version=version, machines=machines)
    problems = judge(existing)
    after = corrected(existing)
    before = {source.name: source for source in existing.sources}
    corrections = [
        Correction(
            source.name,
            bytes_of(before[source.name]) if source.name in before else None,
            bytes_of(source),
            source.mode,
        )
        for source in after.sources
        if before.get(source.name) != source
    ]
    return Opinion(
        existing,
        tuple(problem.finding() for problem in problems),
        tuple(problem.fixable for problem in problems),
        tuple(corrections),
    )


def read_existing(
    paths: Sequence[Path | str],
    *,
    version: str = "",
    machines: Mapping[str, Machine] | None = None,
) -> Existing:
    """Read files without judging them; arguments and errors as of ``lint_existing``."""
    sources: dict[str, Source] = {}
    complete = False
    for path in paths:
        folder = Path(path)
        if folder.is_dir():
            complete = True
            for file in sorted(folder.iterdir()):
                if file.is_file() and _is_slurm_file(file.name):
                    _add(sources, file)
        else:
            _add(sources, folder)
    _included(sources)
    ordered = tuple(sorted(sources.values(), key=lambda s: _rank(s.kind)))
    if not any(source.kind is not Kind.OTHER for source in ordered):
        raise CorralError(
            Code.NOT_FOUND,
            "none of these is a file of Slurm's, hosts, exports, fstab or a script",
            hint="name /etc/slurm, or files called slurm.conf, gres.conf, hosts, exports",
        )
    kinds = {source.kind for source in ordered}
    complete = complete or {Kind.SLURM, Kind.GRES} <= kinds or Kind.CGROUP in kinds
    release = _version(version, machines or {})
    existing = Existing(ordered, release, dict(machines or {}), complete)
    if (names := names_in_all(existing)) > NAMES_AT_MOST:
        raise CorralError(
            Code.USAGE,
            f"the hostlists of these files have {names} names together; {NAMES_AT_MOST} are read",
            hint="give a file with fewer NodeName and PartitionName lines",
        )
    return existing


def write_corrections(
    corrections: Iterable[Correction], output: Path | None = None
) -> tuple[Path, ...]:
    """Write corrected copies: as NAME.corrected next to each file, or into a folder under its name.

    Args:
        corrections: what ``lint_existing`` gave.
        output: a folder that is made; None: next to the files.

    Raises:
        CorralError: USAGE, a copy is there already or cannot be written.
    """
    written: list[Path] = []
    for correction in corrections:
        name = Path(correction.name)
        path = output / name.name if output else name.with_name(f"{name.name}.corrected")
        try:
            mode = correction.mode if correction.mode is not None else 0o644
            if output:
                write_folder(output, {name.name: correction.after}, new=True, mode=mode)
            else:
                write_output(path, correction.after, new=True, mode=mode)
        except FileExistsError as error:
            raise CorralError(
                Code.USAGE, f"{path} is there already", hint="remove it, or name another --output"
            ) from error
        except OSError as error:
            raise CorralError(
                Code.USAGE,
                f"{path} cannot be written: {error.strerror}",
                hint="name another folder: --output DIR",
            ) from error
        written.append(path)
    return tuple(written)


def adopt(paths: Sequence[Path | str], *, version: str = "") -> tuple[str, tuple[Finding, ...]]:
    """A cluster file made from Slurm's own files.

    Args:
        paths: as for ``lint_existing``; hosts holds addresses, fstab mounts.
        version: the Slurm in use, "" for none.

    Returns:
        Its text, with what could not be carried over as comments, and what is still wrong with it.

    Raises:
        CorralError: as ``lint_existing``; NOT_FOUND, there is no slurm.conf with nodes.
    """
    existing = read_existing(paths, version=version)
    if not existing.slurm or not existing.node_names:
        raise _nothing_to_adopt(existing)
    text = cluster_file(corrected(existing), existing)
    return text, load_text(text, "cluster.yaml").findings


def _nothing_to_adopt(existing: Existing) -> CorralError:
    for source in existing.of(Kind.TEMPLATE):
        _, text = placeholder(source.text) or (0, "")
        return CorralError(
            Code.NOT_FOUND,
            f"{source.name} is a template: {shown(text)} takes the place of a value",
            hint="render it first, and name the result",
        )
    broken = next((row.broken for row in existing.nodes if row.broken), "")
    return CorralError(
        Code.NOT_FOUND,
        f"no node can be read: {broken}" if broken else "no slurm.conf with nodes among these",
        hint="name the folder with slurm.conf, such as /etc/slurm, or correct its NodeName lines",
    )


def machine_of(facts: Facts, more: Mapping[str, object] | None = None) -> Machine:
    """A machine as the rules compare with it.

    Args:
        facts: what it is.
        more: ``hostname``, ``uids`` (user to numeric id) and ``open_keys`` (paths), which facts do
            not hold.
    """
    known = dict(more or {})
    uids = cast("Mapping[str, Any]", known.get("uids") or {})
    nics = [address.partition("/")[0] for nic in facts.nics for address in nic.addresses]
    return Machine(
        facts.node,
        str(known.get("hostname") or ""),
        facts.cpus,
        facts.sockets,
        facts.cores_per_socket,
        facts.threads_per_core,
        facts.memory_mib,
        tuple(gpu.device for gpu in facts.gpus),
        tuple(gpu.name for gpu in facts.gpus),
        tuple(dict.fromkeys([*([facts.address] if facts.address else []), *nics])),
        {str(user): int(uid) for user, uid in uids.items()},
        facts.slurm,
        facts.plugins,
        _link(facts),
        tuple(cast("Sequence[str]", known.get("open_keys") or ())),
    )


def _link(facts: Facts) -> int:
    """Speed of the interface that the machine is reached by, in Mb/s."""
    for nic in facts.nics:
        if facts.address in [address.partition("/")[0] for address in nic.addresses]:
            return nic.speed_mbps
    return 0


def machine_from_file(node: str, path: Path | str) -> Machine:
    """A machine from facts that were written as JSON; ``node`` is its name in slurm.conf.

    Raises:
        CorralError: NOT_FOUND or PARSE_FAILED.
    """
    try:
        read: Any = json.loads(Path(path).read_text(encoding="utf-8"))
        fields = cast("dict[str, object]", {**read, "node": node})
        return machine_of(Facts.from_dict(fields), fields)
    except OSError as error:
        raise CorralError(
            Code.NOT_FOUND, cannot_read(path, error), hint="--facts NODE=FILE"
        ) from error
    except (ValueError, TypeError) as error:
        raise CorralError(
            Code.PARSE_FAILED,
            f"{path} holds no facts: {error}",
            hint="it must be the JSON of one machine's facts",
        ) from error


def _version(text: str, machines: Mapping[str, Machine]) -> SlurmVersion | None:
    if text:
        return SlurmVersion.parse(text)
    known = [SlurmVersion.parse(m.slurm) for m in machines.values() if m.slurm]
    return min(known, default=None)


def _is_slurm_file(name: str) -> bool:
    """Whether a folder's file is read: those with a usual name, no old copies."""
    kind, node = kind_of(name)
    if is_template_name(name):
        return True
    return kind is not Kind.OTHER and (bool(node) or name == kind.value or kind is Kind.SETUP)


def _rank(kind: Kind) -> int:
    return list(Kind).index(kind)


def _add(sources: dict[str, Source], path: Path, kind: Kind | None = None) -> None:
    try:
        seen = path.stat()
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > BYTES_AT_MOST:
            raise CorralError(
                Code.USAGE, f"{path} is not a file of at most 8 MiB", hint="name a file or a folder"
            )
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise CorralError(
            Code.NOT_FOUND,
            f"{path} does not exist",
            hint="name a folder such as /etc/slurm, or files",
        ) from error
    except OSError as error:
        raise CorralError(Code.USAGE, cannot_read(path, error), hint="read it as root") from error
    source = source_of(str(path), data, stat.S_IMODE(seen.st_mode))
    if kind is not None:
        source = Source(source.name, Kind.OTHER, source.text, source.mode)
    sources.setdefault(source.name, source)


def _places(folder: Path, include: PurePosixPath) -> Iterator[Path]:
    """Where an included file may be: a copy of /etc/slurm holds what Include names there."""
    parts = include.parts[1:] if include.is_absolute() else include.parts
    yield from (folder.joinpath(*parts[at:]) for at in range(len(parts)))
    if include.is_absolute():
        yield Path(include)


def _included(sources: dict[str, Source]) -> None:
    """Read what Include lines name, where it is there; what is not is a finding."""
    while True:
        existing = Existing(tuple(sources.values()))
        before = len(sources)
        for kind in CONFS:
            name = existing.confs[kind].text("ClusterName").lower()
            for source in existing.confs[kind].sources:
                folder = Path(source.name).parent
                for placed, why in existing.confs[kind].lost:
                    include = PurePosixPath(placed.line.include.replace("%c", name))
                    if why == NOT_GIVEN:
                        path = next((p for p in _places(folder, include) if p.is_file()), None)
                        if path is not None:
                            _add(sources, path, Kind.OTHER)
        if len(sources) == before:
            return
