"""The table of security faults, against the versions that distributions ship."""

from __future__ import annotations

from importlib.resources import files

import pytest

from corral.errors import Code, CorralError
from corral.slurm.advisories import Advisory, advisories, load, numbers, shipped


def ids(component: str, version: str) -> list[str]:
    return [advisory.id for advisory in advisories(component, version)]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("26.05.5", []),
        ("26.05.3", ["CVE-2026-65107"]),
        ("26.11.0", []),
        ("25.11.8-1", []),
        ("25.11.2", ["CVE-2026-65107"]),
        ("24.11.5-4", ["CVE-2026-65107"]),
        ("24.11.4", ["CVE-2026-65107", "CVE-2025-43904"]),
        ("24.05.2", ["CVE-2026-65107", "CVE-2025-43904", "CVE-2024-48936"]),
        (
            "23.11.4-1.2ubuntu5",
            ["CVE-2026-65107", "CVE-2025-43904", "CVE-2024-42511"],
        ),
        (
            "22.05.8",
            ["CVE-2026-65107", "CVE-2025-43904", "CVE-2024-42511", "CVE-2023-49933",
             "CVE-2023-41914"],
        ),
    ],
)  # fmt: skip
def test_slurm(version: str, expected: list[str]) -> None:
    assert ids("slurm", version) == expected


@pytest.mark.parametrize(
    ("component", "version", "count"),
    [
        ("munge", "0.5.15-4ubuntu0.1", 1),
        ("munge", "0.5.18-1", 0),
        ("pmix", "4.2.5", 1),
        ("pmix", "4.2.6", 0),
        ("pmix", "5.0.0", 1),
        ("pmix", "5.0.1", 0),
        ("pmix", "3.2.0", 1),
        ("nvidia-container-toolkit", "1.17.7-1", 1),
        ("nvidia-container-toolkit", "1.18.0", 0),
        ("openssh", "1:9.6p1-3ubuntu13", 1),
        ("openssh", "8.4p1", 0),
        ("openssh", "9.8p1", 0),
        ("vim", "1.0", 0),
    ],
)
def test_others(component: str, version: str, count: int) -> None:
    assert len(advisories(component, version)) == count


def test_the_message_states_what_is_known_and_no_more() -> None:
    (advisory,) = advisories("slurm", "24.11.5")
    text = advisory.message("24.11.5")
    assert "affected upstream version" in text
    assert "check your distribution's advisory" in text
    assert "and 7 more" in text
    assert "vulnerable" not in text


def test_a_newer_table_is_used() -> None:
    text = files("corral.slurm").joinpath("data/advisories.yaml").read_text("utf-8")
    newer = load(
        text + "  - {id: CVE-2027-0001, component: slurm, title: t, introduced: '26.05',\n"
        "     fixed: ['26.05.9'], branch: 2, action: a, source: s}\n"
    )
    assert newer[:-1] == shipped()
    assert [advisory.id for advisory in advisories("slurm", "26.05.5", newer)] == ["CVE-2027-0001"]
    assert advisories("slurm", "26.05.5") == []


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2, "updated": "2026-01-01"}', "[]"])
def test_broken_table(text: str) -> None:
    with pytest.raises(CorralError, match=r"advisories\.yaml:1:1: "):
        load(text)


def test_every_row_can_hit_and_miss() -> None:
    for advisory in shipped():
        assert not any(advisory.affects(fix) for fix in advisory.fixed)
        assert not advisory.affects("99.1")
        first = advisory.introduced or "0.1"
        assert advisory.affects(first), advisory.id


def test_no_version() -> None:
    with pytest.raises(CorralError) as caught:
        advisories("slurm", "unknown")
    assert caught.value.code is Code.PARSE_FAILED
    assert numbers("1:9.6p1-3ubuntu13") == (9, 6)
    with pytest.raises(ValueError, match="fixed"):
        Advisory.model_validate({**shipped()[0].model_dump(), "fixed": []})
