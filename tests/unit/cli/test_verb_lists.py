"""The packages of verbs list those of their folder: all of them, and no others."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from corral.cli.main import VERBS

PACKAGES = sorted({verb.module.partition(".")[0] for verb in VERBS.values()})


def listed(text: str) -> set[str]:
    """The words of the last list of a docstring: ``Verbs of X: a, b.``, ``The verb a.``"""
    match = re.search(r"([a-z]+(?:, [a-z]+)*)\.\s*$", text)
    return set(match[1].split(", ")) if match else set()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_lists_its_verbs(package: str) -> None:
    verbs = {name for name, verb in VERBS.items() if verb.module.startswith(f"{package}.")}
    assert listed(import_module(f"corral.cli.{package}").__doc__ or "") == verbs
