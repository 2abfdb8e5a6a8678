"""Optional parts of Corral: what each extra of its package needs, and how to install that here."""

from __future__ import annotations

import json
import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from typing import Any

from corral.errors import BAD_JSON, Code, CorralError

DISTRIBUTION = "corral"
"""Name of the package, as pyproject.toml has it; no other place in the code has it."""
_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


def own_version() -> str:
    """The version of Corral that runs.

    Raises:
        PackageNotFoundError: it was not installed, as in a bare source folder.
    """
    return version(DISTRIBUTION)


def direct_url() -> dict[str, Any]:
    """What this Corral was installed from (PEP 610); empty where an index gave it.

    A record that is damaged is none: an address that is not a text, or with control characters.

    Raises:
        PackageNotFoundError: it was not installed.
    """
    installed = distribution(DISTRIBUTION)
    try:
        record = json.loads(installed.read_text("direct_url.json") or "{}")
        address = record.get("url", "")
    except BAD_JSON:
        return {}
    return record if isinstance(address, str) and address.isprintable() else {}


def wheel_prefix() -> str:
    """What the names of Corral's wheels begin with (PEP 427: runs of ``-_.`` become one ``_``)."""
    return f"{re.sub('[-_.]+', '_', DISTRIBUTION)}-"


def wheel_name() -> str:
    """The file name of Corral's wheel."""
    return f"{wheel_prefix()}{own_version()}-py3-none-any.whl"


def packages_of(extra: str) -> list[str]:
    """Requirements of an extra, such as ``["httpx<1,>=0.28"]``.

    Empty where this program has no package metadata, as in a bare source folder.
    """
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
    return [
        requirement.strip()
        for requirement, _, marker in (line.partition(";") for line in lines)
        if extra in _EXTRA.findall(marker)
    ]


def missing_extra(extra: str, feature: str, missing: str) -> CorralError:
    """The error for a feature whose packages are not installed.

    The hint names the packages and this Python, and not ``corral[extra]``: that name can only be
    installed where an index has it, a checkout's own environment and a wheel from a file have not.

    Args:
        extra: Key of ``[project.optional-dependencies]`` in pyproject.toml.
        feature: Subject of the sentence, as in "the page".
        missing: Modules that could not be imported.
    """
    install = shlex.join([sys.executable, "-m", "pip", "install", *packages_of(extra)])
    return CorralError(
        Code.MISSING_TOOL,
        f"{feature} needs Python packages that are not installed: {missing}",
        hint=install,
    )
