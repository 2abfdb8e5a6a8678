"""Rules about slurmdbd.conf, plugstack.conf and topology.conf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from corral.slurm.adopt.rule import E, Problem, Rule, W
from corral.slurm.adopt.source import Kind
from corral.slurm.adopt.system_files import words_of
from corral.slurm.adopt.view import Existing, expanded
from corral.spec.findings import Level, shown
from corral.spec.slurm.releases import Feature, since

_MANUAL: Final = "slurmdbd.conf(5)"
_PRIVATE: Final = 0o600


def mode(existing: Existing) -> Iterator[Problem]:
    """The daemon refuses a file that others may read."""
    conf = existing.confs[Kind.SLURMDBD]
    if conf and conf.source.mode is not None and conf.source.mode & 0o777 != _PRIVATE:
        yield Problem(
            conf.spot,
            f"its mode is {conf.source.mode & 0o777:04o}: it may hold a password, and slurmdbd "
            "refuses to start unless it is 0600",
            "chmod 600, owner SlurmUser",
        )


def password(existing: Existing) -> Iterator[Problem]:
    """A password in the clear."""
    conf = existing.confs[Kind.SLURMDBD]
    setting = conf.get("StoragePass")
    if setting is None:
        return
    host = conf.text("StorageHost", "localhost")
    local = host in ("localhost", "127.0.0.1", "::1", *existing.controllers)
    yield Problem(
        setting.spot,
        "the database's password is here in the clear" + (", and in every copy" * (not local)),
        "MariaDB knows the user slurm by its unix socket: identified via unix_socket, and no "
        "StoragePass"
        if local
        else "keep the file at 0600, or use StoragePassScript "
        f"({since(Feature.STORAGE_PASSWORD_SCRIPT)})",
        where="StoragePass",
    )


_NEEDED: Final = (("DbdHost", "NAME"), ("StorageType", "accounting_storage/mysql"))


def needed(existing: Existing) -> Iterator[Problem]:
    """What slurmdbd cannot do without."""
    conf = existing.confs[Kind.SLURMDBD]
    if not conf:
        return
    for key, value in _NEEDED:
        if conf.get(key) is None:
            fix = (conf.adds(f"{key}={value}"),) if value != "NAME" else ()
            yield Problem(
                conf.spot,
                f"{key} is missing: slurmdbd refuses to start",
                f"write {key}={value}",
                fix,
                where=key,
            )
    storage = conf.get("StorageType")
    if storage and storage.value.lower() not in ("accounting_storage/mysql", "mysql"):
        yield Problem(
            storage.spot,
            f"{shown(storage.value)} does not exist",
            "write StorageType=accounting_storage/mysql; it serves MariaDB too",
            (storage.becomes("accounting_storage/mysql"),),
            where="StorageType",
        )


def agreement(existing: Existing) -> Iterator[Problem]:
    """slurm.conf and slurmdbd.conf that do not agree."""
    conf, slurm = existing.confs[Kind.SLURMDBD], existing.slurm
    if not conf or not slurm:
        return
    for own, other, default in (
        ("AuthType", "AuthType", "auth/munge"),
        ("SlurmUser", "SlurmUser", "root"),
        ("DbdPort", "AccountingStoragePort", "6819"),
    ):
        here, there = conf.get(own), slurm.get(other)
        mine, theirs = conf.text(own, default), slurm.text(other, default)
        if mine != theirs:
            yield Problem(
                here.spot if here else conf.spot,
                f"{own} is {mine} here, and {other} is {theirs} in slurm.conf",
                f"write {own}={theirs}"
                if there
                else f"write {own}={theirs}, or {other}={mine} in slurm.conf",
                ((here.becomes(theirs) if here else conf.adds(f"{own}={theirs}")),)
                if there
                else (),
                where=own,
            )
    host = conf.get("DbdHost")
    asked = slurm.text("AccountingStorageHost", "localhost")
    local = ("localhost", "127.0.0.1")
    if host and slurm.text("AccountingStorageType") and host.value not in (asked, *local):
        names = {host.value.lower(), conf.text("DbdAddr").lower()}  # DNS knows no case
        controllers = {name.lower() for name in existing.controllers}
        if asked.lower() not in names and not (asked in local and names & controllers):
            yield Problem(
                host.spot,
                f"DbdHost is {shown(host.value)}, and slurm.conf asks {shown(asked)}",
                f"write AccountingStorageHost={host.value} in slurm.conf",
                level=Level.WARNING,
                where="DbdHost",
            )


def plugstack(existing: Existing) -> Iterator[Problem]:
    """Lines of plugstack.conf that are not plugins."""
    for source in existing.of(Kind.PLUGSTACK):
        for line, words in words_of(source):
            word = words[0].text.lower()
            if word == "include" and len(words) > 1:
                continue
            if word not in ("required", "optional") or len(words) == 1:
                yield Problem(
                    line,
                    f"{shown(line.text)} is neither required, optional nor include",
                    "write: required /path/plugin.so [arguments]",
                )
            elif word == "required":
                yield Problem(
                    line,
                    f"{shown(words[1].text)} is required: a plugin built for another release "
                    "stops slurmd",
                    "rebuild it with each release of Slurm, in the same step",
                    level=Level.INFO,
                )


def topology(existing: Existing) -> Iterator[Problem]:
    """Switches without nodes, with both, or with nodes that nobody declared."""
    conf = existing.confs[Kind.TOPOLOGY]
    known = set(existing.node_names)
    switches = conf.begin("SwitchName")
    names = {n for s in switches for n in expanded(s.value)}
    for first in switches:
        values = first.placed.line.values()
        inside, below = values.get("nodes"), values.get("switches")
        if bool(inside) == bool(below):
            both = "both nodes and switches" if inside else "neither nodes nor switches"
            yield Problem(
                first.spot,
                f"switch {shown(first.value)} has {both}",
                "give a leaf Nodes= and the others Switches=",
            )
        lost = [n for n in expanded(inside or "") if known and n not in known and n != "ALL"]
        lost += [n for n in expanded(below or "") if n not in names]
        if lost:
            yield Problem(
                first.spot, f"{shown(lost[0])} is not declared", "name declared nodes and switches"
            )
    if switches and existing.slurm and "tree" not in existing.slurm.text("TopologyPlugin").lower():
        yield Problem(
            conf.spot,
            "TopologyPlugin is not topology/tree: nobody reads this file",
            "write TopologyPlugin=topology/tree in slurm.conf",
            level=Level.WARNING,
        )


RULES: Final = (
    Rule("slurmdbd-mode", E, Kind.SLURMDBD, "slurmdbd.conf that others may read.", "mode 0600",
         mode, "", "Slurm's slurmdbd read_config.c"),
    Rule("slurmdbd-password", W, Kind.SLURMDBD, "A password in the clear.",
         "unix_socket, no StoragePass", password, "", _MANUAL),
    Rule("slurmdbd-needed", E, Kind.SLURMDBD, "DbdHost or StorageType is missing or wrong.",
         "StorageType=accounting_storage/mysql", needed, "F38", _MANUAL),
    Rule("slurmdbd-differs", E, Kind.SLURMDBD, "slurm.conf and slurmdbd.conf do not agree.",
         "the same in both", agreement, "F38", _MANUAL),
    Rule("plugstack", E, Kind.PLUGSTACK, "A line of plugstack.conf that is not a plugin.",
         "required|optional PATH", plugstack, "F22", "plugstack.conf, spank(7)"),
    Rule("topology", E, Kind.TOPOLOGY, "Switches that do not add up.", "declared nodes", topology,
         "", "topology.conf(5)"),
)  # fmt: skip
