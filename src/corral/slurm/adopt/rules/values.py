"""Rules about the words that keys of slurm.conf take, and about those refused together."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pydantic import field_validator

from corral.slurm.adopt.rule import E, Problem, Rule
from corral.slurm.adopt.rules.keys import drops
from corral.slurm.adopt.source import Edit, Kind
from corral.slurm.adopt.view import Existing, Setting
from corral.slurm.version import has
from corral.spec.findings import Level, shown
from corral.spec.slurm.keys import key_table, word_table
from corral.spec.slurm.releases import Feature, Release, since
from corral.tables import Row, pattern_that_compiles, read_table


@dataclass(frozen=True, slots=True)
class Value:
    """One word that a key takes.

    Attributes:
        name: as Slurm's source writes it.
        since: first release that knows it; None for all that were read.
        until: first release that does not; None for none.
    """

    name: str
    since: Release | None
    until: Release | None


def _table() -> Mapping[str, Mapping[str, Value]]:
    table: dict[str, dict[str, Value]] = {}
    for group in word_table().groups:
        for word in group.words.split():
            value = Value(word, group.since, group.until)
            table.setdefault(group.key.lower(), {})[word.lower()] = value
    return MappingProxyType(table)


_VALUES: Final = _table()
_READ: Final = f"{key_table().first} to {key_table().last}"
_PLUGINS: Final = frozenset(word_table().plugins.lower().split())
# read_config.c, mpi.c: Slurm itself reads these as something else. "none" is not a plugin since
# 23.11. cred/slurm is in auth/slurm's library.
_TRANSLATED: Final = frozenset(
    {("mpidefault", "openmpi"), ("topologyplugin", "default"), ("credtype", "slurm")}
)
# read_config.c takes no "none" of these, and before 21.08 passed over strange words of the first.
_NEVER_NONE: Final = frozenset({"accountingstorageenforce", "preemptmode"})
_STRICT: Final = MappingProxyType({"accountingstorageenforce": Feature.STRICT_ACCOUNTING_ENFORCE})
# Rules that know more of these: select-type, accounting.
_ELSEWHERE: Final = frozenset({("selecttype", "cons_res"), ("accountingstoragetype", "filetxt")})


class Replacement(Row):
    """What to write for a word that is gone; ``replacements.yaml`` has the meanings."""

    key: str
    word: str = ""
    new: str
    same: bool = False


class Need(Row):
    """A setting that is taken only with another one; ``needs.yaml`` has the meanings."""

    key: str
    values: str
    other: str
    hint: str

    @field_validator("values")
    @classmethod
    def _compiles(cls, values: str) -> str:
        return pattern_that_compiles(values)


REPLACEMENTS: Final = read_table("corral.slurm.adopt", "replacements.yaml", tuple[Replacement, ...])
NEEDS: Final = read_table("corral.slurm.adopt", "needs.yaml", tuple[Need, ...])
_SUCCESSORS: Final = MappingProxyType(
    {(row.key, row.word): row.new for row in REPLACEMENTS if row.same}
)
_INSTEAD: Final = MappingProxyType({row.key: row.new for row in REPLACEMENTS if not row.same})


def values(existing: Existing) -> Iterator[Problem]:
    """Plugins and flags that are gone, not there yet, or never were."""
    for key in _VALUES:
        setting = existing.slurm.get(key)
        for word in _words(setting):
            name = word.rpartition("/")[2].lower()
            if name == "none" and key not in _NEVER_NONE:
                continue
            if {(key, name)} & (_TRANSLATED | _ELSEWHERE):
                continue
            if setting is not None:
                yield from _judged(existing, setting, word, name)


def _words(setting: Setting | None) -> list[str]:
    return [word.strip() for word in setting.value.split(",") if word.strip()] if setting else []


def _judged(existing: Existing, setting: Setting, word: str, name: str) -> Iterator[Problem]:
    key = setting.key.lower()
    known = _VALUES[key].get(name)
    if known is None:
        strict = _STRICT.get(key)
        if not (strict and existing.version and not has(existing.version, strict)):
            yield from _stranger(setting, word, name)
        return
    release = existing.version.release if existing.version else None
    edits: tuple[Edit, ...] = ()
    if known.until and (not release or release >= known.until):
        what = f"{shown(word)} is gone since Slurm {known.until}"
        new = _SUCCESSORS.get((key, name), "")
        edits = _replaced(setting, word, new)
        hint = _instead(key, new)
    elif known.since and release and release < known.since:
        what = f"{shown(word)} came with Slurm {known.since}, and this is {release}"
        hint = f"leave it out, or use Slurm {known.since} or newer"
    else:
        return
    yield Problem(
        setting.spot,
        f"{setting.key}: {what}: daemons that read it refuse to start",
        hint,
        edits,
        level=None if release else Level.WARNING,
        where=setting.key,
    )


def _instead(key: str, new: str) -> str:
    new = new or _INSTEAD.get(key, "")
    return f"write {new}" if new else "leave it out"


def _replaced(setting: Setting, word: str, new: str) -> tuple[Edit, ...]:
    """Edits that write the successor; a flag without one leaves its list, a plugin stays."""
    key = setting.key.lower()
    if not new and key in _PLUGINS:
        return ()
    words = [new if other == word else other for other in _words(setting)]
    left = ",".join(dict.fromkeys(other for other in words if other))
    return (setting.becomes(left),) if left else drops(setting)


def _stranger(setting: Setting, word: str, name: str) -> Iterator[Problem]:
    """A word that no release has: a site's own plugin, or a slip."""
    key = setting.key.lower()
    known = _VALUES[key]
    if key == "mpidefault" and name.startswith("pmix_v"):  # each PMIx release has its own
        return
    if key not in _PLUGINS:
        hint, level = "leave it out, or see the manual page", None
        what = f"no release of Slurm knows {shown(word)}: slurmctld refuses to start"
    else:
        hint, level = "install it on the machines, or leave it out", Level.WARNING
        what = f"{shown(word)} is not a plugin of Slurm's own"
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    if close:
        hint = f"did you mean {known[close[0]].name}?"
    yield Problem(setting.spot, f"{setting.key}: {what}", hint, level=level, where=setting.key)


_BASES: Final = ("cr_socket", "cr_core", "cr_cpu")
_NO_BASE: Final = frozenset({"cr_core_default_dist_block"})
_CORE: Final = frozenset({"cr_cpu", "cr_cpu_memory"})


def resources(existing: Existing) -> Iterator[Problem]:
    """SelectTypeParameters without a resource, with two, or with flags that exclude each other."""
    how = existing.slurm.get("SelectTypeParameters")
    words = [word.lower() for word in _words(how)]
    bases = [word for word in words if word.startswith(_BASES) and word not in _NO_BASE]
    plugin = existing.slurm.get("SelectType")
    if how and len(bases) > 1:
        yield Problem(
            how.spot,
            f"{' and '.join(bases)}: slurmctld takes one of them and refuses to start with both",
            f"write one of them, such as {bases[0]}",
            where="SelectTypeParameters",
        )
    unset = not how or words == ["none"]
    # Since 21.08 CR_Core_Memory is the default of the cons_ plugins.
    if plugin and "cons_" in plugin.value.lower() and not bases and not existing.slurm.lost:
        yield from _refused(
            existing,
            plugin,
            "no CR_CPU, CR_Core or CR_Socket in SelectTypeParameters",
            "write SelectTypeParameters=CR_Core_Memory with DefMemPerCPU=MIB, or CR_Core",
            until=Feature.DEFAULT_CORE_MEMORY if unset else None,
        )
    if how and "cr_one_task_per_core" in words and _CORE & set(words):
        yield from _refused(
            existing,
            how,
            "CR_ONE_TASK_PER_CORE with CR_CPU",
            "write CR_Core or CR_Core_Memory in the place of CR_CPU",
            begin=Feature.ONE_TASK_PER_CORE_WITHOUT_CPU,
        )


def preemption(existing: Existing) -> Iterator[Problem]:
    """PreemptMode without the PreemptType that it needs, and the other way round."""
    if existing.slurm.lost:
        return
    kind, how = existing.slurm.get("PreemptType"), existing.slurm.get("PreemptMode")
    modes = {word.lower() for word in _words(how)}
    preempts = bool(kind and kind.value.rpartition("/")[2].lower() not in ("none", ""))
    # "gang" alone is time slicing; "cluster" is an old name of off, "on" of suspend.
    moves = modes - {"gang", "off", "cluster"}
    if how and moves & {"suspend", "on"} and "gang" not in modes:
        yield from _refused(
            existing,
            how,
            f"PreemptMode={shown(how.value)} without GANG",
            "write PreemptMode=SUSPEND,GANG",
        )
    elif how and moves and not preempts:
        yield from _refused(
            existing,
            how,
            f"PreemptMode={shown(how.value)} without PreemptType",
            "write PreemptType=preempt/qos or preempt/partition_prio, or leave PreemptMode out",
        )
    elif kind and preempts and not moves - {"within", "priority"}:
        yield from _refused(
            existing,
            kind,
            f"PreemptType={shown(kind.value)} without a PreemptMode",
            "write PreemptMode=REQUEUE or CANCEL, or leave PreemptType out",
        )


def needs(existing: Existing) -> Iterator[Problem]:
    """A setting that slurmctld takes only with another one."""
    for need in NEEDS:
        setting = existing.slurm.get(need.key)
        if not setting or existing.slurm.lost or existing.slurm.get(need.other):
            continue
        if re.fullmatch(need.values, setting.value, re.I):
            what = f"{setting.key}={shown(setting.value)} without {need.other}"
            yield from _refused(existing, setting, what, need.hint)


def topology(existing: Existing) -> Iterator[Problem]:
    """A topology plugin whose file is not there, or that the selection plugin does not take."""
    setting = existing.slurm.get("TopologyPlugin")
    if not setting or setting.value.lower() not in (
        "topology/tree",
        "topology/block",
        "tree",
        "block",
    ):
        return
    if existing.slurm.text("SelectType").lower().endswith("linear"):
        yield from _refused(
            existing,
            setting,
            f"{shown(setting.value)} with select/linear",
            "write SelectType=select/cons_tres, or leave TopologyPlugin out",
            begin=Feature.NO_TOPOLOGY_WITH_LINEAR,
        )
    if existing.complete and not existing.confs[Kind.TOPOLOGY]:
        yield Problem(
            setting.spot,
            f"{shown(setting.value)}, and there is no topology.conf: slurmctld waits a minute for "
            "the file and ends",
            "give that file too, write it, or leave TopologyPlugin out",
            level=Level.WARNING,
            where="TopologyPlugin",
        )


def no_partition(existing: Existing) -> Iterator[Problem]:
    """No partition at all, or no node at all."""
    conf = existing.slurm
    if conf.lost or not conf.get("ClusterName") or not existing.controllers:
        return
    if conf.begin("PartitionName") and (existing.all_nodes or conf.begin("FrontendName")):
        return
    first = conf.get("ClusterName")
    if first is not None and existing.version is not None:
        yield from _refused(
            existing,
            first,
            "no PartitionName or no NodeName line",
            "write NodeName lines as slurmd -C prints them, and PartitionName=main Nodes=ALL "
            "Default=YES",
            until=Feature.STARTS_WITHOUT_PARTITIONS,
        )


def _refused(
    existing: Existing,
    setting: Setting,
    what: str,
    hint: str,
    *,
    begin: Feature | None = None,
    until: Feature | None = None,
) -> Iterator[Problem]:
    """Applies to releases with ``begin`` and without ``until``; a warning where none is named."""
    now = existing.version
    if now is not None and ((begin and not has(now, begin)) or (until and has(now, until))):
        return
    if now is None and until is not None:
        return  # the newest release takes it
    when = f" since Slurm {since(begin)}" if begin else ""
    when = f" before Slurm {since(until)}" if until else when
    message = f"{what}: slurmctld refuses to start{when}"
    level = None if now else Level.WARNING
    yield Problem(setting.spot, message, hint, level=level, where=setting.key)


def pairs(existing: Existing) -> Iterator[Problem]:
    """Settings that slurmctld refuses together, or without what belongs to them."""
    yield from resources(existing)
    yield from preemption(existing)
    yield from needs(existing)
    yield from topology(existing)
    yield from no_partition(existing)


RULES: Final = (
    Rule(
        "value-unknown", E, Kind.SLURM,
        "A plugin or a flag that this release does not have.",
        "its successor, or nothing", values,
        source=f"folders of plugins and parsers of flags, {_READ}",
    ),
    Rule(
        "values-refused", E, Kind.SLURM,
        "Settings that slurmctld refuses together, or without what belongs to them.",
        "one of them", pairs, source="Slurm's read_config.c",
    ),
)  # fmt: skip
