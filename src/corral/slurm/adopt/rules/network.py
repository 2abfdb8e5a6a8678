"""Rules about hosts, exports, fstab and sshd_config."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

from corral.slurm.adopt.rule import E, I, Problem, Rule, W
from corral.slurm.adopt.source import Edit, Kind, Source, Spot
from corral.slurm.adopt.system_files import Export, Host, words_of
from corral.slurm.adopt.view import Existing
from corral.spec.findings import Level, shown
from corral.spec.slurm.hostlist import fold_in_order

# The names that Debian, Ubuntu and RHEL write for the loopback addresses themselves.
_LOCAL: Final = re.compile(
    r"(ip6-)?(localhost|loopback)(\.(localdomain|localdomain[46]))?|localhost[46](\.localdomain[46])?"
    r"|ip6-[a-z]+|broadcasthost|localhost6"
)
_PLACEHOLDER: Final = re.compile(r"<[^>\s]+>|\$\{?\w+\}?|X\.X\.X\.X|TAILSCALE_IP", re.I)
_FSTAB_FIELDS: Final = (4, 5, 6)


def own_name(existing: Existing) -> Iterator[Problem]:
    """A host's name on a loopback address."""
    for source in existing.of(Kind.HOSTS):
        for host in existing.hosts[source.name]:
            names = [spot for spot in host.names if not _LOCAL.fullmatch(spot.text.lower())]
            if not host.loopback or not names:
                continue
            host_names = ", ".join(spot.text for spot in names)
            yield Problem(
                names[0],
                f"{shown(host_names)} is on {host.address.text}: the machine makes others reach "
                "it at their own loopback address",
                f"take {host_names} off every 127.* line, and give it its real address",
                _off(host, names),
                where=host.address.text,
            )


def _off(host: Host, names: list[Spot]) -> tuple[Edit, ...]:
    """Edits that take names off a line; the line becomes a comment when none is left."""
    source = host.line.source
    if len(names) == len(host.names):
        return (Edit(source.name, host.line.start, host.line.start, "# "),)
    edits: list[Edit] = []
    for spot in names:
        start = spot.start
        while source.text[start - 1] in " \t":
            start -= 1
        edits.append(Edit(source.name, start, spot.stop, ""))
    return tuple(edits)


def addresses(existing: Existing) -> Iterator[Problem]:
    """Lines that are not entries, names with two addresses."""
    for source in existing.of(Kind.HOSTS):
        seen: dict[tuple[str, int], Host] = {}
        for host in existing.hosts[source.name]:
            try:
                version = ipaddress.ip_address(host.address.text.partition("%")[0]).version
            except ValueError:
                yield Problem(
                    host.address,
                    f"{shown(host.address.text)} is not an address",
                    "write ADDRESS NAME on each line",
                )
                continue
            if not host.names:
                yield Problem(host.address, "an address without a name", "write ADDRESS NAME")
            for spot in () if host.loopback else host.names:
                first = seen.setdefault((spot.text.lower(), version), host)
                if first.address.text != host.address.text:
                    yield Problem(
                        spot,
                        f"{shown(spot.text)} is {host.address.text} here and {first.address.text} "
                        "above, and the first one counts",
                        "name each host once",
                        level=Level.WARNING,
                    )


def known_nodes(existing: Existing) -> Iterator[Problem]:
    """Nodes that a hosts file does not name, where nothing else gives their address."""
    if not existing.slurm:
        return
    without_address = [
        name
        for row in existing.nodes
        if not row.get("NodeAddr") and row.text("State").upper() not in ("CLOUD", "FUTURE")
        for name in row.names
    ]
    with_address = {
        s.value.partition("(")[0] for s in existing.slurm.begin("SlurmctldHost") if "(" in s.value
    }
    without_address += [name for name in existing.controllers if name not in with_address]
    for source in existing.of(Kind.HOSTS):
        named = {
            s.text.lower() for h in existing.hosts[source.name] if not h.loopback for s in h.names
        }
        lost = [name for name in dict.fromkeys(without_address) if name.lower() not in named]
        if lost and named:
            yield Problem(
                Spot(source, 0, 0),
                f"no line of this file has {fold_in_order(lost)}, and no NodeAddr "
                'gives the address: "Unable to resolve" without DNS',
                f"add ADDRESS {lost[0]}, or NodeAddr= in slurm.conf",
            )


def node_addr(existing: Existing) -> Iterator[Problem]:
    """NodeName lines without addresses."""
    table = _addresses(existing)
    for row in existing.nodes:
        if row.get("NodeAddr") or not row.names or row.text("State").upper() in ("CLOUD", "FUTURE"):
            continue
        if row.get("NodeHostname") or existing.slurm.text("SlurmctldParameters").count("cloud_dns"):
            continue
        resolved = [table.get(name.lower(), "") for name in row.names]
        value = fold_in_order(resolved) if all(resolved) else ""
        yield Problem(
            row.first.spot,
            "no NodeAddr: every daemon asks the name service for these nodes, and one that answers "
            "127.0.1.1 or nothing makes them unreachable",
            f"write NodeAddr={value or 'ADDRESSES, in the order of the names'}",
            (row.adds(f"NodeAddr={value}"),) if value else (),
            where=f"NodeName={row.first.value}",
        )


def _addresses(existing: Existing) -> dict[str, str]:
    """Addresses of hosts by name, of machines' facts and of all hosts files; unclear ones out."""
    table: dict[str, str] = {
        m.name.lower(): m.addresses[0] for m in existing.machines.values() if m.addresses
    }
    for hosts in existing.hosts.values():
        for host in hosts:
            if host.loopback or ":" in host.address.text:
                continue
            for spot in host.names:
                name = spot.text.lower()
                before = table.setdefault(name, host.address.text)
                if before != host.address.text:
                    table[name] = ""
    return table


def _options(export: Export, *words: str) -> bool:
    return any(word in export.options for word in words)


def root_squash(existing: Existing) -> Iterator[Problem]:
    """Root of other machines is root on the server."""
    for export in existing.exports:
        if not _options(export, "no_root_squash"):
            continue
        network = export.network
        wide = export.world or "*" in export.client or "?" in export.client
        wide = wide or (network is not None and network.num_addresses > 1)
        who = (
            f"all of {network}"
            if network and network.num_addresses > 1
            else ("every machine that reaches the server" if export.world else export.client)
        )
        at = export.spot.text.find("no_root_squash")
        start = export.spot.start + at if at >= 0 else -1
        edits = (
            (Edit(export.spot.source.name, start, start + 14, "root_squash"),) if at >= 0 else ()
        )
        yield Problem(
            export.spot,
            f"{export.path}: no_root_squash for {shown(who)}: root there is root here",
            "write root_squash, and one line per node; run enroot and containers as the user, not "
            "as root",
            edits,
            level=None if wide else Level.WARNING,
            where=export.path,
        )


def wide(existing: Existing) -> Iterator[Problem]:
    """Exports to more machines than was meant."""
    seen: dict[tuple[str, str], Export] = {}
    for export in existing.exports:
        network = export.network
        if export.bare:
            yield Problem(
                export.spot,
                f"{export.path}: a space before {shown(export.spot.text)}: these options "
                "apply to every host, and the host before it has the defaults",
                "write HOST(options) without a space",
                level=Level.ERROR,
                where=export.path,
            )
        elif export.world and not _options(export, "ro"):
            yield Problem(
                export.spot,
                f"{export.path} is writable for every machine that reaches the server",
                "name the nodes: NODE(rw,sync,root_squash)",
                where=export.path,
            )
        host = export.client.partition("/")[0]
        mask = "/" in export.client
        if _PLACEHOLDER.search(export.client):
            yield from _placeholder(export)
        elif mask and network and network.num_addresses > 1 and str(network[0]) != host:
            yield Problem(
                export.spot,
                f"{export.client} is not that host but all of {network}",
                f"write {host}/{network.max_prefixlen} for the one host",
                (_client(export, f"{host}/{network.max_prefixlen}"),),
                level=Level.ERROR,
                where=export.path,
            )
        key = (export.path, str(network) if network else export.client)
        if seen.setdefault(key, export) is not export and not export.bare:
            yield Problem(
                export.spot,
                f"{export.path} is exported to {shown(key[1])} above",
                "one line per address",
                where=export.path,
            )


def _placeholder(export: Export) -> Iterator[Problem]:
    wide = re.search(r"/(\d+)$", export.client)
    yield Problem(
        export.spot,
        f"{shown(export.client)} holds a placeholder"
        + (f", and /{wide[1]} is an entire network, not one node" if wide else ""),
        "write each node's address with /32; tailscale ip prints IPv4 and IPv6: use tailscale ip -4"
        if "tailscale" in export.client.lower()
        else "write each node's address with /32",
        level=Level.ERROR,
        where=export.path,
    )


def _client(export: Export, client: str) -> Edit:
    start = export.spot.start
    return Edit(export.spot.source.name, start, start + len(export.client), client)


def fstab(existing: Existing) -> Iterator[Problem]:
    """Lines that are not mounts."""
    for source in existing.of(Kind.FSTAB):
        for line, words in words_of(source):
            bad = len(words) not in _FSTAB_FIELDS or words[0].text in ("sudo", "mount")
            if bad or not (words[1].text.startswith("/") or words[1].text in ("none", "swap")):
                yield Problem(
                    line,
                    f"{shown(line.text)} is not a mount",
                    "write WHAT WHERE TYPE OPTIONS 0 0; commands do not belong here",
                    (Edit(source.name, line.start, line.start, "# "),),
                )


def nfs_mounts(existing: Existing) -> Iterator[Problem]:
    """NFS mounts that hang a boot."""
    for source in existing.of(Kind.FSTAB):
        for _, words in words_of(source):
            if len(words) not in _FSTAB_FIELDS or words[2].text not in ("nfs", "nfs4"):
                continue
            options = words[3].text.split(",")
            lost = [o for o in ("_netdev", "nofail") if o not in options]
            if lost and "noauto" not in options and "x-systemd.automount" not in options:
                yield Problem(
                    words[3],
                    f"{words[1].text}: without {' and '.join(lost)} a boot waits for the server, "
                    "or gives up",
                    f"write {','.join([*options, *lost])}; over Tailscale also "
                    "x-systemd.requires=tailscaled.service",
                    (Edit(source.name, words[3].stop, words[3].stop, "," + ",".join(lost)),),
                    where=words[1].text,
                )


def sshd(existing: Existing) -> Iterator[Problem]:
    """PasswordAuthentication below an Include: the first value wins."""
    for source in existing.of(Kind.SSHD):
        yield from _sshd(source)


def _sshd(source: Source) -> Iterator[Problem]:
    included = ""
    for line, words in words_of(source):
        word = words[0].text.lower()
        if word == "include" and len(words) > 1:
            included = words[1].text
        if word == "match":
            return
        if word == "passwordauthentication" and len(words) > 1 and included:
            yield Problem(
                line,
                f"a file of {included} is read first, and the first value wins",
                "write it into a file there whose name sorts first, then ask: sshd -T | grep -i "
                "passwordauthentication",
            )


RULES: Final = (
    Rule("own-name-loopback", E, Kind.HOSTS, "A host's own name on 127.*.",
         "its real address", own_name, "F06", "faq.html"),
    Rule("hosts-entry", E, Kind.HOSTS, "A line that is not an entry, a name with two addresses.",
         "ADDRESS NAME", addresses, "F05", "hosts(5)"),
    Rule("hosts-incomplete", E, Kind.HOSTS, "A hosts file that lacks nodes without NodeAddr.",
         "ADDRESS NAME", known_nodes, "F05, F66", "slurm.conf(5)"),
    Rule("node-addr-missing", I, Kind.SLURM, "Nodes without NodeAddr.",
         "NodeAddr=ADDRESSES", node_addr, "F05, F06", "slurm.conf(5)"),
    Rule("exports-root", E, Kind.EXPORTS, "no_root_squash; an error where it is for many.",
         "root_squash", root_squash, "F41", "exports(5)"),
    Rule("exports-wide", W, Kind.EXPORTS,
         "A space before the options, a network where a host was meant, the world, a duplicate.",
         "HOST(options)", wide, "", "exports(5)"),
    Rule("fstab-entry", E, Kind.FSTAB, "A line that is not a mount.",
         "WHAT WHERE TYPE OPTIONS 0 0", fstab, "", "fstab(5)"),
    Rule("fstab-nfs", W, Kind.FSTAB, "An NFS mount without _netdev and nofail.",
         "_netdev,nofail", nfs_mounts, "", "systemd.mount(5)"),
    Rule("sshd-overridden", W, Kind.SSHD, "PasswordAuthentication below an Include.",
         "a file of sshd_config.d", sshd, "", "sshd_config(5)"),
)  # fmt: skip
