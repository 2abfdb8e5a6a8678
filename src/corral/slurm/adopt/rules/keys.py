"""Rules about keys and grammar, the same for all of Slurm's files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from corral.slurm.adopt.keytable import Known, line_table, lookup, meant
from corral.slurm.adopt.rule import E, Problem, Rule, W
from corral.slurm.adopt.source import CONFS, Edit, Kind, Spot, placeholder
from corral.slurm.adopt.view import NOT_GIVEN, Conf, Existing, Setting
from corral.slurm.conf.parse import switch
from corral.slurm.tres import SUFFIXES
from corral.spec.findings import Level, shown
from corral.spec.slurm.keys import Obsolete, key_table, obsolete_table

_NUMBER: Final = re.compile(rf"([0-9]+|0x[0-9a-f]+)[{SUFFIXES}]?|UNLIMITED|INFINITE", re.I)
_SOURCE: Final = "Slurm's parse_config.c"


_READ: Final = f"{key_table().first} to {key_table().last}"


def _pairs(existing: Existing) -> Iterator[tuple[Kind, str, Setting]]:
    """Every setting of every file with the first key of its line, "" for the first key itself."""
    for kind in CONFS:
        for placed in existing.confs[kind].lines:
            first = ""
            for pair in placed.line.pairs:
                yield kind, first, Setting(placed, pair)
                first = first or pair.key


def _known(existing: Existing) -> Iterator[tuple[Kind, Setting, Known]]:
    for kind, first, setting in _pairs(existing):
        if first and not line_table(kind.value, first):
            continue
        known = lookup(kind.value, first, setting.key)
        if known is not None:
            yield kind, setting, known


def drops(setting: Setting) -> tuple[Edit, ...]:
    """Edits that take a setting out: its line becomes a comment, or it leaves its line."""
    if setting.placed.line.pairs[0] == setting.pair:
        return setting.placed.commented_out()
    raw = setting.placed.line.raw
    start = setting.pair.begin
    while start and raw[start - 1] in " \t":
        start -= 1
    at = setting.placed.at
    return (Edit(setting.placed.source.name, at + start, at + setting.pair.stop, ""),)


def unknown_keys(existing: Existing) -> Iterator[Problem]:
    """Keys that no release knows."""
    for kind, first, setting in _pairs(existing):
        if first and not line_table(kind.value, first):
            yield Problem(
                setting.spot,
                f"{shown(setting.key)} follows {first}, where nothing else is allowed",
                "put it on its own line",
                where=setting.key,
            )
        elif lookup(kind.value, first, setting.key) is None:
            what = f"a line that begins with {first}" if first else kind.value
            yield Problem(
                setting.spot,
                f"no release of Slurm knows the key {shown(setting.key)} in {what}",
                meant(kind.value, first, setting.key) or "leave it out, or see the manual page",
                where=setting.key,
            )


def removed_keys(existing: Existing) -> Iterator[Problem]:
    """Keys that this release does not know any more."""
    for kind, setting, known in _known(existing):
        if not known.until:
            continue
        now = existing.version.release if existing.version else None
        if now and now < known.until:
            continue
        yield Problem(
            setting.spot,
            f"{known.name} is not known to Slurm since {known.until}: daemons that read "
            f"{kind.value} refuse to start",
            "leave it out",
            drops(setting),
            level=None if now else Level.WARNING,
            where=setting.key,
        )


def dead_keys(existing: Existing) -> Iterator[Problem]:
    """Keys that are read and ignored with an error."""
    for _, setting, known in _known(existing):
        if not known.dead or (existing.version and existing.version.release < known.dead):
            continue
        if known.until and (not existing.version or existing.version.release >= known.until):
            continue
        yield Problem(
            setting.spot,
            f"{known.name} does nothing since {known.dead}: daemons log an error about it",
            "leave it out",
            drops(setting),
            where=setting.key,
        )


def new_keys(existing: Existing) -> Iterator[Problem]:
    """Keys that are younger than the release in use."""
    if existing.version is None:
        return
    for kind, setting, known in _known(existing):
        if known.since and existing.version.release < known.since:
            yield Problem(
                setting.spot,
                f"{known.name} came with Slurm {known.since}; {existing.version.release} refuses "
                f"{kind.value} because of it",
                f"leave it out, or use Slurm {known.since} or newer",
                where=setting.key,
            )


def obsolete_keys(existing: Existing) -> Iterator[Problem]:
    """Keys that are still read, and should not be there."""
    for row in obsolete_table():
        release = existing.version.release if existing.version else None
        known = lookup(row.file, "", row.key)
        gone = known is not None and known.until and (not release or release >= known.until)
        # A key that the release does not know at all is removed-key's.
        if gone or (release and release < row.since):
            continue
        for setting in existing.confs[Kind(row.file)].begin(row.key):
            stops = row.fatal and setting.value.lower() not in row.harmless
            yield Problem(
                setting.spot,
                f"{setting.key} is obsolete since Slurm {row.since}: {row.why}",
                row.hint,
                _successor(existing, row, setting),
                level=Level.ERROR if stops and release else Level.WARNING,
                where=setting.key,
            )


def _successor(existing: Existing, row: Obsolete, setting: Setting) -> tuple[Edit, ...]:
    """Edits that write what took a key's place, or take it out where nothing did."""
    if row.new:
        return (setting.renamed(row.new),)
    if row.key == "keepalivetime":
        return _keepalive(existing, setting)
    if row.key == "fastschedule" and setting.value == "2":
        return _fast_schedule(existing, setting)
    return drops(setting) if row.leaves else ()


def _fast_schedule(existing: Existing, setting: Setting) -> tuple[Edit, ...]:
    """FastSchedule=2 is a word of SlurmdParameters now."""
    other = existing.slurm.get("SlurmdParameters")
    if other is None:
        return (setting.replaced_by("SlurmdParameters=config_overrides"),)
    if "config_overrides" in other.value.lower():
        return drops(setting)
    return (*drops(setting), other.becomes(f"{other.value},config_overrides"))


def _keepalive(existing: Existing, setting: Setting) -> tuple[Edit, ...]:
    if existing.slurm.get("CommunicationParameters"):
        return ()
    return (setting.replaced_by(f"CommunicationParameters=keepalivetime={setting.value}"),)


def repeated_keys(existing: Existing) -> Iterator[Problem]:
    """A key that is set twice and may be set once."""
    for kind in CONFS:
        seen: dict[str, Setting] = {}
        for setting, known in _firsts(existing.confs[kind], kind):
            earlier = seen.get(known.name)
            seen[known.name] = setting
            if earlier is None or known.repeats or setting.pair.operator:
                continue
            line = earlier.placed.source.place(earlier.spot.start)[0]
            same = earlier.value == setting.value
            yield Problem(
                earlier.spot,
                f"{known.name} is set again below, and the last one counts"
                + (": this line does nothing" if not same else ", with the same value"),
                f"leave this line out (line {line})",
                drops(earlier),
                where=setting.key,
            )


def _firsts(conf: Conf, kind: Kind) -> Iterator[tuple[Setting, Known]]:
    for placed in conf.lines:
        if placed.line.pairs:
            known = lookup(kind.value, "", placed.line.pairs[0].key)
            if known is not None:
                yield Setting(placed, placed.line.pairs[0]), known


def wrong_types(existing: Existing) -> Iterator[Problem]:
    """A word where a number or yes and no belong."""
    for _, setting, known in _known(existing):
        value = setting.value
        if known.flag and switch(value) is None:
            yield Problem(
                setting.spot,
                f"{known.name} is yes or no, not {shown(value)}",
                f"write {known.name}=yes or {known.name}=no",
                where=setting.key,
            )
        elif known.number and not _NUMBER.fullmatch(value):
            yield Problem(
                setting.spot,
                f"{known.name} is a number, not {shown(value)}",
                f"write {known.name}=N",
                where=setting.key,
            )


def syntax(existing: Existing) -> Iterator[Problem]:
    """Text that is neither a setting nor a comment."""
    for kind in CONFS:
        for placed in existing.confs[kind].lines:
            if not placed.line.rest:
                continue
            raw = placed.line.raw
            after = placed.line.pairs[-1].stop if placed.line.pairs else 0
            lead = len(raw[after:]) - len(raw[after:].lstrip())
            spot = Spot(placed.source, placed.at + after + lead, placed.spot.stop)
            hint = "write key=value, and quotes around a value with spaces"
            if spot.text.startswith("\ufeff"):
                hint = "save the file as UTF-8 without a byte order mark"
            # What follows a password may be the rest of it.
            secret = any("pass" in pair.key.lower() for pair in placed.line.pairs)
            secret = secret or "pass" in placed.line.rest.lower()
            subject = "the rest of this line" if secret else shown(placed.line.rest)
            where = "StoragePass" if secret else ""
            message = f"{subject} is neither key=value nor a comment"
            yield Problem(spot, message, hint, where=where)


def includes(existing: Existing) -> Iterator[Problem]:
    """Include lines whose file does not exist."""
    for kind in CONFS:
        for placed, why in existing.confs[kind].lost:
            missing = why == NOT_GIVEN
            if missing and not existing.complete:
                continue
            yield Problem(
                placed.spot,
                f"Include {shown(placed.line.include)}: {why}",
                "give that file too, or take the line out",
                level=Level.WARNING if missing else None,
            )


def encoding(existing: Existing) -> Iterator[Problem]:
    """Line ends of another system: Slurm copes, other tools do not."""
    for kind in CONFS:
        for source in existing.confs[kind].sources:
            if "\r\n" in source.text:
                at = source.text.index("\r\n")
                yield Problem(
                    Spot(source, at, at),
                    "lines end with CR LF as on Windows",
                    "Slurm reads them; scripts that read the file with awk or grep see a "
                    "carriage return in each value",
                )


def templates(existing: Existing) -> Iterator[Problem]:
    """A template in the place of a file."""
    for source in existing.of(Kind.TEMPLATE):
        at, text = placeholder(source.text) or (0, "")
        what = f": {shown(text)} takes the place of a value" if text else ""
        yield Problem(
            Spot(source, at, at + len(text)),
            f"this is a template, not the file made from it{what}; nothing else is checked",
            "render it first, and give the result",
        )


RULES: Final = (
    Rule(
        "template", Level.INFO, Kind.SLURM, "A template (Jinja, ERB) instead of the file itself.",
        "the rendered file", templates, source="",
    ),
    Rule(
        "conf-syntax", E, Kind.SLURM, "Text that is neither `key=value` nor a comment.",
        "key=value", syntax, source=_SOURCE,
    ),
    Rule(
        "unknown-key", E, Kind.SLURM, "A key that no release knows.",
        "the key that was meant", unknown_keys, source=f"{_SOURCE}; options tables {_READ}",
    ),
    Rule(
        "removed-key", E, Kind.SLURM, "A key that this release does not know any more.",
        "nothing", removed_keys, source=f"options tables {_READ}",
    ),
    Rule(
        "defunct-key", W, Kind.SLURM, "A key that is read and ignored with an error.",
        "nothing", dead_keys, source=f"options tables {_READ} (_defunct_option)",
    ),
    Rule(
        "key-too-new", E, Kind.SLURM, "A key that is younger than the release in use.",
        "nothing, or a newer Slurm", new_keys, source=f"options tables {_READ}",
    ),
    Rule(
        "obsolete-key", W, Kind.SLURM,
        "A key that is still read but was replaced; some stop the daemons.",
        "its successor", obsolete_keys, source="Slurm's read_config.c",
    ),
    Rule(
        "repeated-key", W, Kind.SLURM, "A key that is set twice; the last one counts.",
        "one of them", repeated_keys, source=f"{_SOURCE} (_handle_common)",
    ),
    Rule(
        "wrong-type", E, Kind.SLURM, "A word where a number or yes/no belongs.",
        "a number, or yes or no", wrong_types, source="Slurm's parse_value.c",
    ),
    Rule(
        "include-lost", E, Kind.SLURM,
        "An Include of a file that is not there, of a pattern, or of itself.",
        "the file's own name", includes, source=_SOURCE,
    ),
    Rule(
        "line-ends", Level.INFO, Kind.SLURM, "Lines end as on Windows.",
        "line feeds", encoding, source="",
    ),
)  # fmt: skip
