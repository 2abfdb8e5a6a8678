"""The host's own package archive, read from its apt sources. Pure, except ``host_sources``.

No archive's name is in Corral: the node image comes from where this machine's own packages
come from, so a mirror, a proxy or a frozen snapshot that works for the host works for the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from corral.errors import Code, CorralError
from corral.hosts import process
from corral.inspect.system import release_fields
from corral.state.packages import stanzas

APT: Final = Path("/etc/apt")
OS_RELEASE: Final = Path("/etc/os-release")
_MIRROR_FILE: Final = "mirror+file:"
# What apt takes for no in a field (apt-pkg/contrib/strutl.cc, StringToBool).
_NO: Final = ("no", "false", "without", "off", "disable", "0")
_USABLE: Final = ("http://", "https://", "file:")
_ONE_LINE = re.compile(
    r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<c>.*)"
)
_PROXY = re.compile(r'^Acquire::(https?)::Proxy "([^"]*)";$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """One binary package source of apt.

    Attributes:
        uri: where it is.
        suite: release or pocket, such as trixie-security.
        components: main, universe, ...
        signed_by: keyring path or the key itself (armoured); "" for apt's own keyrings.
        trusted: signatures are not checked, as the host's administrator decided.
    """

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""
    trusted: bool = False

    def line(self) -> str:
        """It as a one-line entry for mmdebstrap; the keyring is given apart."""
        option = "[trusted=yes] " if self.trusted else ""
        return f"deb {option}{self.uri} {self.suite} {' '.join(self.components)}"


def parse_one_line(text: str) -> tuple[Source, ...]:
    """Entries of a ``sources.list``; comments, deb-src and flat repositories are left out."""
    sources: list[Source] = []
    for raw in text.splitlines():
        entry = _ONE_LINE.match(raw.partition("#")[0].strip())
        if entry is None or entry["suite"].endswith("/"):
            continue
        pairs = (o.partition("=") for o in (entry["options"] or "").split())
        options = {key.lower(): value for key, _, value in pairs}
        sources.append(
            Source(
                entry["uri"],
                entry["suite"],
                tuple(entry["c"].split()),
                options.get("signed-by", "").split(",")[0],
                options.get("trusted") == "yes",
            )
        )
    return tuple(sources)


def parse_deb822(text: str) -> tuple[Source, ...]:
    """Entries of a ``.sources`` file, one per URI and suite."""
    sources: list[Source] = []
    for fields in stanzas(text):
        off = fields.get("enabled", "").lower() in _NO
        if off or "deb" not in fields.get("types", "").split():
            continue
        components = tuple(fields.get("components", "").split())
        sources += [
            Source(
                uri, suite, components, fields.get("signed-by", ""), fields.get("trusted") == "yes"
            )
            for uri in fields.get("uris", "").split()
            for suite in fields.get("suites", "").split()
            if not suite.endswith("/")
        ]
    return tuple(sources)


def host_release() -> dict[str, str]:
    """Keys and values of this machine's os-release."""
    return release_fields(OS_RELEASE.read_text())


def host_sources(apt: Path = APT) -> tuple[Source, ...]:
    """All binary sources of this machine, mirror lists resolved."""
    sources: list[Source] = []
    folder = apt / "sources.list.d"
    files = [apt / "sources.list", *(sorted(folder.iterdir()) if folder.is_dir() else ())]
    for path in files:
        if path.suffix == ".sources" and path.is_file():
            sources += parse_deb822(path.read_text())
        elif path.suffix == ".list" and path.is_file():
            sources += parse_one_line(path.read_text())
    return tuple(replace(source, uri=_resolved(source.uri)) for source in sources)


def _resolved(uri: str) -> str:
    """The first mirror of a ``mirror+file:`` list (Debian's cloud images use them)."""
    if not uri.startswith(_MIRROR_FILE):
        return uri
    path = Path("/" + uri.removeprefix(_MIRROR_FILE).lstrip("/"))
    lines = path.read_text().splitlines() if path.is_file() else []
    words = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    return words[0] if words else uri


def for_suite(
    sources: Iterable[Source], codename: str, suite: str, components: Mapping[str, tuple[str, ...]]
) -> tuple[Source, ...]:
    """The host's own archive, with ``suite`` in the place of the host's release.

    Args:
        sources: what the host has.
        codename: the host's release, such as bookworm.
        suite: the wanted release, such as trixie.
        components: wanted components by pocket: "" (the release itself), "security", "updates".

    Raises:
        CorralError: IMAGE_FAILED, the host has no usable source of its own release.
    """
    chosen: dict[str, Source] = {}
    for source in sources:
        pocket = _pocket(source.suite, codename)
        usable = source.uri.startswith(_USABLE) and "main" in source.components
        if usable and pocket is not None and pocket in components and pocket not in chosen:
            name = f"{suite}-{pocket}" if pocket else suite
            chosen[pocket] = replace(source, suite=name, components=components[pocket])
    if "" not in chosen:
        raise CorralError(
            Code.IMAGE_FAILED,
            f"this machine has no apt source for its own release {codename or '(unknown)'}",
            hint="add the distribution's archive to /etc/apt/sources.list.d, "
            "or name an image in the group: image: localhost/my-debian:13",
        )
    return tuple(chosen[pocket] for pocket in components if pocket in chosen)


def _pocket(suite: str, codename: str) -> str | None:
    """Which pocket of the host's release a suite is, None for another release."""
    if suite != codename and not suite.startswith((f"{codename}-", f"{codename}/")):
        return None
    return suite[len(codename) :].lstrip("-/") if codename else None


def parse_proxies(dump: str) -> dict[str, str]:
    """Apt's proxies as environment variables, from the output of ``apt-config dump``."""
    proxies: dict[str, str] = {}
    for scheme, value in _PROXY.findall(dump):
        if value and value.upper() != "DIRECT":
            proxies[f"{scheme}_proxy"] = value
    return proxies


async def host_proxies() -> dict[str, str]:
    """``parse_proxies`` of this machine; none where it has no apt-config."""
    try:
        end = await process.run(["apt-config", "dump", "Acquire"], timeout=20.0)
    except (CorralError, TimeoutError):
        return {}
    return parse_proxies(end.stdout.decode(errors="replace"))
