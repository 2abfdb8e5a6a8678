"""The catalogue itself: complete entries, unique names and numbers, what hides what, examples."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files

import pytest

from corral.doctor.catalog import catalog, tables
from corral.doctor.logs.diagnosis import explain, read
from corral.doctor.model import Failure, Severity, system_errors

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


def _reasons_in(text: str) -> list[str]:
    return [reason for reason in system_errors() if re.search(reason, text, re.IGNORECASE)]


def test_a_line_with_another_reason_of_the_kernel_is_not_taken() -> None:
    """A file that is missing does not explain "Permission denied", though the words before fit."""
    tried = 0
    for failure in (entry for entry in ENTRIES if entry.reasons):
        foreign = "no such process"
        assert foreign not in failure.reasons
        for example in failure.examples:
            if not _reasons_in(example):
                continue
            other = re.sub("|".join(system_errors()), foreign, example, flags=re.IGNORECASE)
            lines = [line for line in other.split("\n") if foreign in line]
            for line in lines:
                tried += 1
                assert failure.id not in [taken.failure.id for taken in read(line)], line
    assert tried > 30


def test_a_reason_is_one_of_the_kernels() -> None:
    good = next(iter(ENTRIES)).model_dump()
    with pytest.raises(ValueError, match="not an error of the kernel"):
        Failure.model_validate({**good, "layer": "job", "reasons": ["no luck"]})


def test_names_are_unique_and_numbers_complete() -> None:
    names = [failure.name for failure in ENTRIES]
    assert len(set(names)) == len(names)
    numbers = [int(entry[1:]) for entry in NAMES]
    # F56 and F57 are about renting (elastic), not about a machine that can be asked.
    # From 106 on several were given at once, and a number never moves: gaps are possible.
    assert sorted({*range(1, 106)} - set(numbers)) == [56, 57]


def test_no_id_is_given_twice() -> None:
    """Two branches can give the same number: of two entries with one id only the last is read."""
    ids = Counter(
        entry
        for package, name in tables()
        for entry in re.findall(
            r"^- id: (\S+)", files(package).joinpath(name).read_text("utf-8"), re.MULTILINE
        )
    )
    assert [entry for entry, times in ids.items() if times > 1] == []
    assert sorted(ids) == sorted(NAMES)


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
        (name, line)
        for package, name in tables()
        for line in plain.findall(files(package).joinpath(name).read_text("utf-8"))
    ]
    assert cut == []


def test_the_guides_text_about_adding_an_entry_is_true() -> None:
    """One YAML entry: fields that are not in the model are refused, so is a wrong number."""
    good = next(iter(ENTRIES)).model_dump()
    assert re.fullmatch(r"F\d+", good["id"])
    with pytest.raises(ValueError, match="Extra inputs"):
        Failure.model_validate({**good, "layer": "job", "colour": "red"})
