"""Releases of Slurm: one type that is ordered, and one table of which begins to do what."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import CorralError
from corral.slurm.adopt.rules.gres import AUTODETECT
from corral.slurm.conf.sizes import sizes
from corral.spec.models import Slurm
from corral.spec.slurm.keys import KeyGroup, WordGroup, key_table, word_table
from corral.spec.slurm.releases import (
    Feature,
    FeatureRow,
    Release,
    ReleaseRow,
    compatible,
    features,
    oldest_tested,
    published,
    releases,
    since,
    written,
)
from corral.spec.slurm.tarballs import tarball_of, tarballs
from corral.tables import parse_table

RELEASES = st.builds(Release, st.integers(14, 30), st.sampled_from([2, 3, 5, 8, 11]))


@given(RELEASES, RELEASES)
def test_releases_are_ordered_as_slurm_orders_them(a: Release, b: Release) -> None:
    assert Release.parse(str(a)) == a
    assert (a < b) == ((a.year, a.month) < (b.year, b.month))


@pytest.mark.parametrize("text", ["24.11.5", "24", "24.1", ">=24.11", ""])
def test_other_forms_are_no_release(text: str) -> None:
    with pytest.raises(ValueError, match="is not a release"):
        Release.parse(text)


def test_releases_are_in_order_and_used_from_one_on() -> None:
    rows = [row.release for row in releases()]
    assert rows == sorted(set(rows))
    uses = [row.use for row in releases()]
    assert uses == sorted(uses, key=("known", "written", "tested", "announced").index)
    assert published()[-1] == written()[-1] == key_table().last


def test_the_window_has_two_releases_and_three_since_24_11() -> None:
    every = [row.release for row in releases()]
    for release, before in compatible().items():
        at = every.index(release)
        assert len(before) == (3 if release >= Release(24, 11) else 2)
        assert [*before] == every[at - len(before) : at][::-1]


def test_the_cluster_files_default_is_the_oldest_that_is_tested() -> None:
    assert Slurm().version == f">={oldest_tested()}"


def test_every_feature_has_a_row_and_every_row_a_source(repo: Path) -> None:
    assert set(features()) == set(Feature)
    text = (repo / "src/corral/spec/slurm/features.yaml").read_text()
    rows = parse_table(text, "features.yaml", tuple[FeatureRow, ...])
    assert len(rows) == len(features())
    assert all(row.source for row in rows)
    assert [row.since for row in rows] == sorted(row.since for row in rows)


def test_every_feature_is_asked_for(repo: Path) -> None:
    text = "\n".join(f.read_text() for f in (repo / "src").rglob("*.py"))
    by_size = {row.feature for row in sizes()}
    assert [f for f in Feature if f"Feature.{f.name}" not in text and f not in by_size] == []


def word(key: str, name: str) -> WordGroup:
    return next(g for g in word_table().groups if g.key == key and name in g.words.split())


def key(file: str, name: str) -> KeyGroup:
    groups = (g for g in key_table().groups if g.file == file and not g.line)
    return next(g for g in groups if name in (k.rstrip("*?#") for k in g.keys.split()))


def test_features_agree_with_the_tables_that_are_made_from_slurms_source() -> None:
    assert word("AuthType", "slurm").since == since(Feature.AUTH_SLURM)
    assert word("TopologyPlugin", "block").since == since(Feature.BLOCK_TOPOLOGY)
    assert word("SelectType", "cons_res").until == since(Feature.NO_CONS_RES)
    assert key("slurm.conf", "SlurmctldHost").since == since(Feature.SLURMCTLD_HOST)
    script = since(Feature.STORAGE_PASSWORD_SCRIPT)
    assert key("slurmdbd.conf", "StoragePassScript").since == script
    nvidia = next(row for row in AUTODETECT if row.word == "nvidia")
    assert nvidia.since == since(Feature.AUTODETECT_NVIDIA)


@pytest.mark.parametrize(
    ("file", "kind", "right", "wrong", "place"),
    [
        ("features", tuple[FeatureRow, ...], "feature: sackd\n  since: '23.11'",
         "feature: sackd\n  since: 23.11",
         "features.yaml:38:3: 10.since: Value error, not a release in quotes"),
        ("features", tuple[FeatureRow, ...], "- feature: metrics", "- feature: metric",
         "features.yaml:79:3: 24.feature: Input should be"),
        ("releases", tuple[ReleaseRow, ...], "use: written", "use: writes",
         "releases.yaml:10:22: 2.use: Input should be"),
        ("releases", tuple[ReleaseRow, ...], "['21.08', '20.11']", "['21.08', '20-11']",
         "releases.yaml:11:58: 3.understands.1: Value error, not a release"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_place(
    *, repo: Path, file: str, kind: type[object], right: str, wrong: str, place: str
) -> None:
    text = (repo / f"src/corral/spec/slurm/{file}.yaml").read_text()
    assert text.count(right) == 1
    with pytest.raises(CorralError) as caught:
        parse_table(text.replace(right, wrong), f"{file}.yaml", kind)
    assert place in caught.value.message


SLURMS = re.compile(r"(>=|==|~=)?[12]\d\.(02|03|05|08|11)(\.\d{1,2})?")
"""A release of Slurm, or a range; Ubuntu's are of April and October."""
TYPES = {"Release", "SlurmVersion"}


def releases_in(code: str) -> list[str]:
    """Releases of Slurm that a module has as values, and as arguments of the types for them."""
    tree = ast.parse(code)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    values: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if SLURMS.fullmatch(text):
                values += [text] if id(node) not in docstrings else []
            case ast.Constant(value=float(number)) if SLURMS.fullmatch(f"{number:.2f}"):
                values += [f"{number}"] if number > 20 else []
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(), *_]) if name in TYPES:
                values.append(ast.unparse(node))
            case ast.Compare(comparators=[ast.Tuple(elts=[ast.Constant(value=int(year)), *_])]):
                values += [ast.unparse(node)] if 14 <= year <= 40 else []
            case _:
                pass
    return values


TEXTS = {
    "spec/values.py": "an example in a message",
    "spec/models.py": "the default, which a test above compares",
    "api/lifecycle/bundle.py": "versions of two distributions, not thresholds",
    "testing/machines.py": "a simulated machine",
    "testing/elastic.py": "a simulated cluster",
}
"""Modules with a release as a value that is not a threshold, and what it is."""


def test_no_module_has_a_release_of_slurm(repo: Path) -> None:
    source = repo / "src/corral"
    holders = {
        str(file.relative_to(source)): values
        for file in sorted(source.rglob("*.py"))
        if (values := releases_in(file.read_text()))
    }
    assert {f: v for f, v in holders.items() if f not in TEXTS} == {}, "ask since(Feature.X)"
    assert set(TEXTS) <= set(holders)


@pytest.mark.parametrize(
    "code",
    [
        "OLDEST = '22.05'", "a >= '24.11'", "SlurmVersion(24, 11)", "Release(22, 5)",
        "R = {'auth': '>=24.05'}", "a < (23, 11)", "x.startswith('23.02')", "a < 24.11",
    ],
)  # fmt: skip
def test_a_release_in_code_is_found(code: str) -> None:
    assert releases_in(code)


@pytest.mark.parametrize(
    "code", ["'22.04'", "'seen with 24.11.5'", "0.05", "'''24.11'''", "a < (3, 11)"]
)
def test_what_is_none_is_not(code: str) -> None:
    assert not releases_in(code)


def test_known_archives_are_of_releases_that_corral_writes() -> None:
    rows = tarballs()
    assert len({row.version for row in rows}) == len(rows) >= 3
    for row in rows:
        assert Release.parse(row.version.rpartition(".")[0]) in written()
        assert row.address.endswith(f"/slurm-{row.version}.tar.bz2")
        assert re.fullmatch("[0-9a-f]{64}", row.sha256)
        assert row.seen
        assert tarball_of(row.version) is row
    assert tarball_of("25.11.99") is None
