"""Corral's own code on the controller: its wheels, pinned by digest, and where they are.

Made of the files of the package that runs, so that a checkout, a fork and a release all bring what
they are. Its bytes depend on those files alone: stored, not compressed, and all of one date.

The locks are in ``data/``, one section per Python: ``FILE SHA256`` a line, made by
``.ci/lock_wheels``.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Final

from corral.errors import Code, CorralError
from corral.extras import DISTRIBUTION, own_version, wheel_name
from corral.inspect.facts import Facts
from corral.roles.inventory import Site
from corral.roles.role import Role, Share
from corral.spec.systems import distributions, release_of
from corral.state.base import Desired, Resource
from corral.state.pyenv import PythonEnv, Wheel

_DATE: Final = (1980, 1, 1, 0, 0, 0)
_ENTRY_POINTS: Final = b"[console_scripts]\ncorral = corral.cli.main:main\n"
_LEFT_OUT: Final = ("__pycache__", ".pyc", ".swp")


@cache
def own_wheel() -> tuple[Wheel, bytes]:
    """The wheel's name with its digest, and its bytes."""
    version, name = own_version(), wheel_name()
    info = f"{name.removesuffix('-py3-none-any.whl')}.dist-info"
    files = _files(Path(__file__).parents[2])
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {version}\n".encode()
    )
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: corral\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{info}/entry_points.txt"] = _ENTRY_POINTS
    record = f"{info}/RECORD"
    lines = [f"{name},sha256={_sum(data)},{len(data)}" for name, data in sorted(files.items())]
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    data = _packed(files)
    return Wheel(name, hashlib.sha256(data).hexdigest()), data


def _files(root: Path) -> dict[str, bytes]:
    paths = {
        f"corral/{path.relative_to(root).as_posix()}": path
        for path in root.rglob("*")
        if path.is_file() and not any(word in str(path.relative_to(root)) for word in _LEFT_OUT)
    }
    return {name: paths[name].read_bytes() for name in sorted(paths)}


def _packed(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name])
    return packed.getvalue()


def _sum(data: bytes) -> str:
    digest = hashlib.sha256(data).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


_ELSE: Final[Mapping[str, str]] = MappingProxyType(
    {"mlflow": "else run the server yourself: services: {mlflow_uri: ...}"}
)


def wheels_of(program: str, facts: Facts) -> tuple[Wheel, ...]:
    """The wheels of a program for a machine's Python.

    Args:
        program: its lock, such as ``mlflow``.
        facts: what the machine is.

    Raises:
        CorralError: NOT_GOOD, there is no lock for this system.
    """
    release = release_of(facts.os_id, facts.os_version)
    wheels = locked(program).get(release.python, ()) if release else ()
    if not wheels:
        known = ", ".join(
            f"{name} {version}"
            for name, distribution in distributions().items()
            for version, release in distribution.releases.items()
            if release.python in locked(program)
        )
        raise CorralError(
            Code.NOT_GOOD,
            f"no wheels of {program} are known for {facts.os_id} {facts.os_version}",
            node=facts.node,
            hint=f"known are {known}; {_ELSE.get(program, 'it needs Python 3.11 or newer')}",
        )
    return wheels


@cache
def locked(program: str) -> Mapping[str, tuple[Wheel, ...]]:
    """A program's lock: wheels by Python's version."""
    return parse_lock((resources.files("corral.roles") / "data" / f"{program}.lock").read_text())


def parse_lock(text: str) -> Mapping[str, tuple[Wheel, ...]]:
    """Wheels by Python's version, of the text of a lock."""
    by_python: dict[str, list[Wheel]] = {}
    wheels: list[Wheel] = []
    for line in text.splitlines():
        if line.startswith("["):
            wheels = by_python.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            file, digest = line.split()
            wheels.append(Wheel(file, digest))
    return MappingProxyType({python: tuple(each) for python, each in by_python.items()})


FOLDER: Final = "/opt/corral/web"
PYTHON: Final = f"{FOLDER}/bin/python"

HARDENED: Final = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
CapabilityBoundingSet=
UMask=0077
"""


def environment(site: Site) -> PythonEnv:
    """Corral with the page's server, for the controller's Python.

    Raises:
        CorralError: NOT_GOOD, the controller's Python is too old.
    """
    own, _ = own_wheel()
    wheels = (*wheels_of("web", site.facts[site.controller]), own)
    return PythonEnv(FOLDER, "Corral's own code", wheels)


def on_controller(site: Site) -> tuple[Share, ...]:
    """The code, where a declared service needs it."""
    services = site.spec.services
    if not (services.ui or services.metrics):
        return ()
    resources: tuple[Resource, ...] = (environment(site),)
    desired = (Desired((site.controller,), resources),)
    return (Share(desired, title=f"Corral's code on {site.controller}"),)


ROLE: Final = Role("corral_wheels", {"code": on_controller})
