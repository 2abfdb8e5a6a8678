"""All known failures: the YAML files next to this one; the reference is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter
from ruamel.yaml import YAML

from corral.doctor.model import Failure


@cache
def catalog() -> Mapping[str, Failure]:
    """Failure by id."""
    found: list[Failure] = []
    for file in sorted(files(__name__).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".yaml"):
            entries: Any = YAML(typ="safe").load(file.read_text(encoding="utf-8"))  # pyright: ignore
            found += TypeAdapter(list[Failure]).validate_python(entries)
    return MappingProxyType({f.id: f for f in sorted(found, key=lambda f: int(f.id[1:]))})
