"""The catalogue itself: complete entries, unique names and numbers, what hides what, examples."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from corral.doctor.catalog import catalog
from corral.doctor.diagnosis import explain, read
from corral.doctor.model import Failure, Severity

ENTRIES = list(catalog().values())
NAMES = list(catalog())
HIDERS = [failure for failure in ENTRIES if failure.hides]


@pytest.mark.parametrize("failure", ENTRIES, ids=NAMES)
def test_every_entry_is_complete(failure: Failure) -> None:
    for text in (failure.title, failure.cause, failure.fix, failure.source):
        assert text
        assert text == text.strip()
        assert not text.endswith(".")
    assert "  " not in failure.cause + failure.fix
    for pattern in failure.every_pattern:
        assert not pattern.expression.search("")


@pytest.mark.parametrize("failure", ENTRIES, ids=NAMES)
def test_each_example_is_found_by_its_entry(failure: Failure) -> None:
    for example in failure.examples:
        findings = explain(example).findings if failure.stated else read(example)
        assert failure.id in [entry.failure.id for entry in findings], example


def test_entries_that_are_found_by_messages_have_an_example() -> None:
    """Older ones have theirs in test_messages.py and test_field.py."""
    without = [f.id for f in ENTRIES if f.patterns and not f.examples and int(f.id[1:]) > 105]
    assert without == []


def test_names_are_unique_and_numbers_complete() -> None:
    names = [failure.name for failure in ENTRIES]
    assert len(set(names)) == len(names)
    numbers = [int(entry[1:]) for entry in NAMES]
    # F56 and F57 are about renting (elastic), not about a machine that can be asked.
    # From 106 on several were given at once, and a number never moves: gaps are possible.
    assert sorted({*range(1, 106)} - set(numbers)) == [56, 57]


@pytest.mark.parametrize("failure", HIDERS, ids=[f.id for f in HIDERS])
def test_what_is_hidden_exists_and_does_not_hide_back(failure: Failure) -> None:
    for hidden in failure.hides:
        assert hidden in catalog()
        assert hidden != failure.id
        assert failure.id not in catalog()[hidden].hides, f"{failure.id} and {hidden}"


def test_no_finding_hides_all_others() -> None:
    """Of several findings one is always shown: hiding has no cycle, of any length."""
    after = {f.id: set(f.hides) for f in ENTRIES}
    for failure in ENTRIES:
        seen: set[str] = set()
        todo = set(after[failure.id])
        while todo:
            entry = todo.pop()
            seen.add(entry)
            todo |= after[entry] - seen
        assert failure.id not in seen, (failure.id, sorted(seen))


def test_a_warning_hides_no_error() -> None:
    for failure in ENTRIES:
        if failure.severity is Severity.WARNING:
            errors = [h for h in failure.hides if catalog()[h].severity is Severity.ERROR]
            assert errors == [], failure.id


def test_no_text_is_cut_off_by_a_comment() -> None:
    """A hash after a blank begins a comment in plain YAML: ``fix: look at that #SBATCH line``."""
    plain = re.compile(r"^ *(?:- |\w+: )+(?![\"'>|{\[]).* #", re.MULTILINE)
    cut = [
        (file.name, line)
        for file in files("corral.doctor.catalog").iterdir()
        if file.name.endswith(".yaml")
        for line in plain.findall(file.read_text())
    ]
    assert cut == []


def test_the_guides_text_about_adding_an_entry_is_true() -> None:
    """One YAML entry: fields that are not in the model are refused, so is a wrong number."""
    good = next(iter(ENTRIES)).model_dump()
    assert re.fullmatch(r"F\d+", good["id"])
    with pytest.raises(ValueError, match="Extra inputs"):
        Failure.model_validate({**good, "layer": "job", "colour": "red"})
