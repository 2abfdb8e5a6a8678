"""Help of an option or argument: what it sets, then "Default: X." (not what happens without it)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from typer.main import get_command

from corral.cli.main import VERBS, app, load_verb

# Openings that leave out what is set: an exception of the rule, a list, a relation or a question.
OPENINGS: Final = re.compile(
    r"(?:left out|out of|of|as|its|their|default|what|whose|who|where|how|why)\b", re.IGNORECASE
)
LEFT_OUT: Final = re.compile(r"\bleft out\b", re.IGNORECASE)


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    below = getattr(command, "commands", {}) | getattr(command, "below", {})
    for name, group in below.items():
        yield from commands(group, f"{path} {name}")


def helps() -> dict[str, str]:
    """Each parameter of each command with its help."""
    get_command(app)
    return {
        f"{path} {' '.join(parameter.opts)}": parameter.help or ""
        for verb in VERBS
        for path, command in commands(load_verb(verb), verb)
        for parameter in command.params
        if not getattr(parameter, "hidden", False)
    }


def faults(text: str) -> list[str]:
    """What is wrong with a help text."""
    wrong = ["has no text"] if not text else []
    if OPENINGS.match(text):
        wrong.append("does not begin with what it sets")
    if LEFT_OUT.search(text):
        wrong.append('"left out" in place of "Default: X"')
    if any(text[m.start() - 2 : m.start()] != ". " for m in re.finditer(r"[Dd]efault: ", text)):
        wrong.append('"Default: " is not a separate sentence')
    return wrong


def test_every_option_states_what_it_sets() -> None:
    texts = helps()
    assert len(texts) > 400
    wrong = {name: faults(text) for name, text in texts.items() if faults(text)}
    assert not wrong


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Left out: any type.",
        "Out of: ddp, bf16. Default: all.",
        "Of the profile.",
        "GPU type. Left out: any.",
        "Nodes; left out: 1.",
        "GPU type, default: any.",
        "Default: any.",
    ],
)
def test_a_fault_is_seen(text: str) -> None:
    assert faults(text)


def test_the_right_form_passes() -> None:
    assert not faults("GPU type. Default: any.")
    assert not faults("GPU type; 0: any.")
