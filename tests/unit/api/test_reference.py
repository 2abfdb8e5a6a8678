"""The page of the Python API is the code's."""

from __future__ import annotations

import inspect
from pathlib import Path

import corral
import corral.api
from corral.api.reference import page

FILE = Path(__file__).parents[3] / "docs/reference/python.md"


def test_the_page_is_current() -> None:
    assert FILE.read_text() == page(), "python -m corral.api.reference > docs/reference/python.md"


def test_every_public_name_is_on_it_once() -> None:
    written = page()
    for name in dir(corral):
        assert written.count(f"\n### corral.{name}\n") == 1
    for name in dir(corral.api):
        value = getattr(corral.api, name)
        documented = inspect.isfunction(value) or inspect.isclass(value)  # not aliases of types
        cells = written.count(f"\n| `{name}(") + written.count(f"\n| `{name}` | ")
        assert cells >= documented, name


def test_a_methods_parameters_are_those_it_takes() -> None:
    written = page()
    method = written.partition("#### Cluster.exec\n")[2].partition("\n#### ")[0]
    assert "`Cluster.exec(command: Sequence[str], nodes: str = '', *, timeout: float = 600.0)" in (
        method
    )
    assert "| `timeout` | seconds until a node is given up. |" in method
    assert "`spec`" not in method


def test_no_signature_has_an_address() -> None:
    assert " at 0x" not in page()
