"""What becomes of each variable of DeepOps: carried to a field of the cluster file, or reported.

The table is deepops_data/variables.json: all variables of DeepOps' config.example and of its roles'
defaults (release of 2026-08-18).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

UNKNOWN: Final = "not known here: neither DeepOps' configuration nor its roles have it"


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable.

    Attributes:
        field: the cluster file's field that it is carried to, "" for none.
        note: why it is not carried over, and what to do instead.
        off: nothing is lost where it is false or empty: Corral does not do it either.
    """

    field: str = ""
    note: str = ""
    off: bool = False


@cache
def variables() -> Mapping[str, Variable]:
    """The table, by variable."""
    text = files("corral.providers").joinpath("deepops_data", "variables.json").read_text("utf-8")
    table: dict[str, Any] = json.loads(text)
    by_name = {str(name): Variable(field=str(field)) for name, field in table["carried"].items()}
    for row in table["not_carried"]:
        variable = Variable(note=str(row["note"]), off=bool(row["off"]))
        by_name |= dict.fromkeys(str(row["names"]).split(), variable)
    return by_name


def is_on(value: Any) -> bool:
    """Whether Ansible takes a value for true."""
    return value is True or str(value).strip().lower() in {"yes", "true", "on", "1"}


def left_behind(values: Mapping[str, Any]) -> list[str]:
    """Lines about the variables that are not carried over, those with one reason in one line.

    No value is shown: one may be a password.
    """
    by_note: dict[str, list[str]] = {}
    for name, value in values.items():
        known = variables().get(name)
        if known is None:
            by_note.setdefault(UNKNOWN, []).append(name)
        elif known.note and not (known.off and is_off(value)):
            by_note.setdefault(known.note, []).append(name)
    return [f"{', '.join(names)}: {note}" for note, names in by_note.items()]


def is_off(value: Any) -> bool:
    """Whether Ansible takes a value for false, or it is empty."""
    return not value or str(value).strip().lower() in {"no", "false", "off", "0"}
