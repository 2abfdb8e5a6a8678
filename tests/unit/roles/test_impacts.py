"""What fields declare against what their change does to Slurm's files; live: test_impact.py."""

from __future__ import annotations

from typing import Any

import pytest

from corral.roles.order import configured
from corral.slurm.conf.conf_file import ConfFile, SlurmFiles
from corral.slurm.conf.impact import impact_of
from corral.spec.impacts import IMPACTS
from corral.spec.models import ClusterSpec
from corral.spec.schema import walk
from corral.spec.slurm.written_keys import all_keys
from tests.embedded.impacts import BASE, EDITS, PEOPLE, Edit
from tests.unit.roles.test_cluster import laptop, site

DECLARED = {f.path: f.impact for f in walk()}


def files(edit: Edit = lambda data: None) -> SlurmFiles:
    data: dict[str, Any] = laptop().model_dump(mode="json", exclude_defaults=True)
    data |= {"users": PEOPLE, **BASE}
    edit(data)
    return configured(site(ClusterSpec.model_validate(data))).slurm_files


def by_name(files: SlurmFiles) -> dict[str, ConfFile]:
    every = (*files.shared, *((files.dbd,) if files.dbd else ()))
    return {file.name: file for file in every if isinstance(file, ConfFile)}


def test_no_field_does_more_to_slurm_than_it_declares() -> None:
    """The first of a mapping's fields may bring more into slurm.conf than itself (slurm.prolog)."""
    before = by_name(files())
    wrong: list[str] = []
    for path, edit in EDITS.items():
        for name, file in by_name(files(edit)).items():
            word, keys = impact_of(before.get(name), file)
            if IMPACTS.index(word) > IMPACTS.index(DECLARED[path]):
                wrong.append(f"{path} declares {DECLARED[path]}: {name}, {keys}: {word}")
    assert not wrong, wrong


@pytest.mark.parametrize(
    ("path", "word", "key"),
    [
        ("slurm.prolog.leftovers", "reload", "Prolog"),
        ("partitions.max_time", "reload", "MaxTime"),
        ("groups.gpu.type", "restart", "Gres"),
    ],
)
def test_the_edits_are_real_ones(path: str, word: str, key: str) -> None:
    impact, keys = impact_of(files().slurm, files(EDITS[path]).slurm)
    assert (impact, key in keys) == (word, True)


def test_each_key_of_a_field_names_one_that_does_as_much() -> None:
    """keys.yaml's ``field`` is a path of the cluster file; a typing error there writes nothing."""
    of_fields = [key for key in all_keys() if key.field]
    assert of_fields
    for key in of_fields:
        assert IMPACTS.index(DECLARED[key.field]) >= IMPACTS.index(key.impact), key.name
