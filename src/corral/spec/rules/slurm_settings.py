"""Rules about ``slurm.settings``: keys of slurm.conf that the cluster file sets directly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from corral.spec.explain import near
from corral.spec.findings import Level, shown
from corral.spec.rules.queues import version_of
from corral.spec.slurm.keys import SlurmKey, elsewhere, slurm_keys, words_of
from corral.spec.slurm.releases import Release, oldest_tested, published
from corral.spec.view import Problem, Rule, View, repeated

_NUMBER: Final = re.compile(r"-?[0-9]+|0x[0-9a-fA-F]+|(?i:infinite|unlimited)")
_SWITCH: Final = re.compile(r"(?i:yes|no|up|down|true|false|1|0)")
_NEVER_NONE: Final = frozenset({"accountingstorageenforce"})


def _at(name: str) -> tuple[str, ...]:
    return ("slurm", "settings", name)


def _known(view: View) -> Iterator[tuple[str, str, SlurmKey]]:
    """The keys that Slurm has and Corral does not keep for itself: as written, value, key."""
    for name, value in view.spec.slurm.settings.items():
        key = slurm_keys().get(name.lower())
        if key is not None and key.use != "owned":
            yield name, value, key


def unknown(view: View) -> Iterator[Problem]:
    """Keys that no release has."""
    for name in view.spec.slurm.settings:
        if name.lower() in slurm_keys():
            continue
        place = elsewhere(name)
        if place:
            yield Problem(_at(name), f"{shown(name)} is not a global key of slurm.conf", place)
            continue
        meant = near(name, [key.name for key in slurm_keys().values() if not key.until])
        hint = f"did you mean {meant}?" if meant else "slurm.conf(5) of your release lists its keys"
        yield Problem(_at(name), f"slurm.conf has no key {shown(name)}", hint)


def owned(view: View) -> Iterator[Problem]:
    """Keys that Corral sets."""
    for name in view.spec.slurm.settings:
        key = slurm_keys().get(name.lower())
        if key is None or key.use != "owned":
            continue
        message = f"Corral sets {key.name} itself"
        if key.why:
            message = f"slurm.settings may not have {key.name}: {key.why}"
        if key.owner:
            hint = f"remove it; {key.owner} of the cluster file decides over it"
        elif key.why:
            hint = "remove it"
        else:
            hint = "remove it; docs/reference/slurm-keys.md has the value and the reason"
        yield Problem(_at(name), message, hint)


def _accepted(view: View) -> list[Release]:
    """The releases that slurm.version accepts and Corral knows."""
    sign, release = version_of(view)
    if sign != ">=":
        return [release]
    least = max(release, oldest_tested())
    return [each for each in published() if each >= least] or [release]


def version(view: View) -> Iterator[Problem]:
    """Keys that none of the accepted releases has."""
    releases = _accepted(view)
    for name, _, key in _known(view):
        if any(key.known_to(release) for release in releases):
            continue
        first, last = releases[0], releases[-1]
        which = f"Slurm {first}" if first == last else f"Slurm {first} to {last}"
        if key.since and key.since > last:
            message = f"{which} does not know {key.name}: it comes with {key.since}"
            hint = f'write version: ">={key.since}", or remove it'
        else:
            message = f"{which} has no {key.name}: it is gone since {key.until}"
            hint = key.why or "remove it"
        yield Problem(_at(name), message, hint)


def loose(view: View) -> Iterator[Problem]:
    """Keys that some of the accepted releases lack."""
    releases = _accepted(view)
    for name, _, key in _known(view):
        without = [release for release in releases if not key.known_to(release)]
        if not without or len(without) == len(releases):
            continue
        new = key.since in releases
        span = f"from {key.since} on" if new else f"before {key.until}"
        message = f"Slurm has {key.name} {span}, and version takes {without[0]} too"
        hint = f'write version: ">={key.since}"' if new else "remove it before you upgrade"
        yield Problem(_at(name), message, f"{hint}; a plan asks the machines which they have")


def repeated_key(view: View) -> Iterator[Problem]:
    """One key in two spellings: Slurm's keys ignore case."""
    names = list(view.spec.slurm.settings)
    for low in repeated([name.lower() for name in names]):
        last = [name for name in names if name.lower() == low][-1]
        yield Problem(_at(last), f"{last} is set twice: case does not count", "write it once")


def wrong_value(view: View) -> Iterator[Problem]:
    """Values that slurmctld refuses to start with."""
    for name, value, key in _known(view):
        if key.number and not _NUMBER.fullmatch(value):
            message = f"{key.name} is {shown(value)}; Slurm takes a number"
            yield Problem(_at(name), message, f"write for instance {key.name}: 100")
        elif key.switch and not _SWITCH.fullmatch(value):
            message = f"{key.name} is {shown(value)}; Slurm takes yes or no"
            yield Problem(_at(name), message, f"write {key.name}: true or {key.name}: false")


def strange_word(view: View) -> Iterator[Problem]:
    """Plugins and flags that Slurm does not have."""
    for name, value, key in _known(view):
        words = words_of(key.name)
        for word in value.split(",") if words else ():
            low = word.rpartition("/")[2].lower()
            if not low or low in words or (low == "none" and key.name.lower() not in _NEVER_NONE):
                continue
            if key.name == "DebugFlags" and low.lstrip("+-") in words:
                continue
            meant = near(low, list(words))
            hint = f"did you mean {meant}?" if meant else f"words: {', '.join(sorted(words)[:20])}"
            message = f"{key.name} has no word {shown(word)}: daemons may refuse to start"
            yield Problem(_at(name), message, hint)
            break


_READS: Final = ("slurm.settings",)
_VERSIONED: Final = ("slurm.settings", "slurm.version")
_E, _W, _I = Level.ERROR, Level.WARNING, Level.INFO
RULES: Final = (
    Rule("slurm-setting-unknown", _E, "A key of slurm.settings that slurm.conf does not have.",
         _READS, unknown),
    Rule("slurm-setting-owned", _E, "A key of slurm.settings that Corral sets itself.",
         _READS, owned),
    Rule("slurm-setting-repeated", _E, "A key of slurm.settings in two spellings.",
         _READS, repeated_key),
    Rule("slurm-setting-version", _E, "A key of slurm.settings that no accepted release knows.",
         _VERSIONED, version),
    Rule("slurm-setting-loose", _I, "A key of slurm.settings that some accepted releases lack.",
         _VERSIONED, loose),
    Rule("slurm-setting-value", _E, "A value of slurm.settings that is not a number, or neither "
         "yes nor no, where Slurm takes nothing else.", _READS, wrong_value),
    Rule("slurm-setting-word", _W, "A plugin or flag in slurm.settings that Slurm does not have.",
         _READS, strange_word),
)  # fmt: skip
