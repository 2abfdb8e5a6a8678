"""Optional parts of Corral: what each extra of its package needs, and how to install that here."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires

from corral.errors import Code, CorralError

DISTRIBUTION = "corral"
_EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


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
