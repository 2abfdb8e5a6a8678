"""Versions: reading, order, ranges, features, and who talks to whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.slurm.version import SlurmVersion, has, matches, supported, talks_to
from corral.spec.slurm.releases import Feature, since

VERSIONS = st.builds(SlurmVersion, st.integers(20, 30), st.sampled_from([2, 5, 8, 11]),
                     st.integers(0, 30))  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("slurm-wlm 24.11.5", SlurmVersion(24, 11, 5)),
        ("slurm 26.05.3\n", SlurmVersion(26, 5, 3)),
        ("24.11.5-4", SlurmVersion(24, 11, 5)),
        ("22.05.8-4+deb12u3", SlurmVersion(22, 5, 8)),
        ("1:23.11.4-1.2ubuntu5", SlurmVersion(23, 11, 4)),
        ("slurm-26-05-2-1", SlurmVersion(26, 5, 2)),
        ("26-05-2-1", SlurmVersion(26, 5, 2)),
        ("21-08-8-2", SlurmVersion(21, 8, 8)),
        ("24.11", SlurmVersion(24, 11)),
        ("22.05.10", SlurmVersion(22, 5, 10)),
    ],
)
def test_parse(text: str, expected: SlurmVersion) -> None:
    assert SlurmVersion.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", "command not found", "1.2.3", "124.11.5", "24.11.5.6.7.8"[:2]]
)
def test_no_version(text: str) -> None:
    with pytest.raises(CorralError) as caught:
        SlurmVersion.parse(text)
    assert caught.value.code is Code.PARSE_FAILED


@given(VERSIONS)
def test_round_trip(version: SlurmVersion) -> None:
    assert SlurmVersion.parse(str(version)) == version
    assert SlurmVersion.parse(f"slurm-{str(version).replace('.', '-')}-1") == version


@given(VERSIONS, VERSIONS)
def test_ranges(a: SlurmVersion, b: SlurmVersion) -> None:
    assert matches(f">={a}", b) == (b >= a)
    assert matches(f"=={a}", b) == (a == b) == matches(str(a), b)
    assert matches(f"=={a.release}", b) == (a.release == b.release)
    assert matches(f"~={a}", b) == (a.release == b.release and b >= a)


def test_not_a_range() -> None:
    with pytest.raises(CorralError, match="is not a range"):
        matches("<24.11", SlurmVersion(24, 11))


def test_micro_is_a_number_not_text() -> None:
    assert SlurmVersion(22, 5, 10) > SlurmVersion(22, 5, 9)


@pytest.mark.parametrize("feature", Feature)
def test_features_begin_and_stay(feature: Feature) -> None:
    first = since(feature)
    assert has(SlurmVersion(first.year, first.month), feature)
    assert has(SlurmVersion(30, 5), feature)
    assert not has(SlurmVersion(first.year, first.month - 1, 99), feature)


def test_feature_columns_of_the_distributions() -> None:
    debian12, ubuntu24, debian13, ubuntu26 = map(
        SlurmVersion.parse, ("22.05.8", "23.11.4", "24.11.5", "25.11.2")
    )
    columns = (Feature.AUTH_SLURM, Feature.AUTODETECT_NVIDIA, Feature.METRICS)
    assert [has(debian12, f) for f in columns] == [False, False, False]
    assert [has(ubuntu24, f) for f in columns] == [True, False, False]
    assert [has(debian13, f) for f in columns] == [True, True, False]
    assert [has(ubuntu26, f) for f in columns] == [True, True, True]
    assert not has(ubuntu24, Feature.JWKS_ROTATION)


@pytest.mark.parametrize(
    ("newer", "older", "talks"),
    [
        ("23.11", "22.05", True),
        ("23.11", "21.08", False),
        ("24.05", "23.02", True),
        ("24.05", "22.05", False),
        ("24.11", "23.02", True),
        ("24.11", "22.05", False),
        ("26.05", "24.11", True),
        ("26.05", "24.05", False),
        ("24.11.7", "24.11.1", True),
        ("27.11", "26.05", False),
        ("27.11.2", "27.11.1", True),
    ],
)
def test_compatibility(newer: str, older: str, talks: bool) -> None:
    a, b = SlurmVersion.parse(newer), SlurmVersion.parse(older)
    assert talks_to(a, b) is talks
    assert talks_to(b, a) is talks


def test_supported() -> None:
    assert supported(SlurmVersion(21, 8, 5))
    assert not supported(SlurmVersion(20, 11))
    assert not supported(SlurmVersion(26, 11))
