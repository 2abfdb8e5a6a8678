"""What fields declare against what their change does to Slurm's files; live: test_impact.py."""

from __future__ import annotations

from typing import Any

import pytest

from corral.roles.slurm_conf import cluster_conf
from corral.slurm.conf.cluster import render
from corral.slurm.conf.keys import IMPACTS, impact_of
from corral.spec.fields import walk
from corral.spec.models import ClusterSpec
from tests.embedded.impacts import BASE, EDITS, PEOPLE, Edit
from tests.unit.roles.test_cluster import laptop, site

DECLARED = {f.path: f.impact for f in walk()}


def files(edit: Edit = lambda data: None) -> dict[str, str]:
    data: dict[str, Any] = laptop().model_dump(mode="json", exclude_defaults=True)
    data |= {"users": PEOPLE, **BASE}
    edit(data)
    return render(cluster_conf(site(ClusterSpec.model_validate(data))))


def test_no_field_does_more_to_slurm_than_it_declares() -> None:
    """The first of a mapping's fields may bring more into slurm.conf than itself (slurm.prolog)."""
    before = files()
    wrong: list[str] = []
    for path, edit in EDITS.items():
        for name, text in files(edit).items():
            word, keys = impact_of(name, before.get(name, ""), text)
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
    found, keys = impact_of("slurm.conf", files()["slurm.conf"], files(EDITS[path])["slurm.conf"])
    assert (found, key in keys) == (word, True)
