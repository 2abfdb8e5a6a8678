"""Fields that are keys of slurm.conf (``field`` of keys.yaml), with every provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.providers.gcp.blueprint import modules
from corral.providers.gcp.blueprint.cluster import deployment_of
from corral.slurm.conf import fields
from corral.spec.load import load_or_raise
from corral.spec.models import ClusterSpec
from corral.spec.providers import PROVIDERS
from corral.spec.rules import judge
from corral.spec.slurm.written_keys import OF_LINE, Key, all_keys
from corral.tables import parse_table
from tests.embedded.impacts import EDITS

MEGA = Path(__file__).parents[3] / "examples" / "a3mega.yaml"
MADE_UP = """\
- {file: slurm.conf, line: PartitionName, name: Hidden, field: partitions.default,
   value: as declared, reason: A test., impact: reload, source: slurm.conf(5)}
- {file: slurm.conf, line: PartitionName, name: OverTimeLimit, field: partitions.max_time,
   form: time limit, value: as declared, reason: A test., impact: reload, source: slurm.conf(5)}
- {file: slurm.conf, line: NodeName, name: Weight, field: groups.gpu.count, form: MiB,
   value: as declared, reason: A test., impact: reload, source: slurm.conf(5)}
"""
"""Forms that no field of a line has."""
FIELDS = tuple(key for key in all_keys() if key.field)
EXTRA = parse_table(MADE_UP, "keys.yaml", tuple[Key, ...])
WRITTEN = {"Hidden": "YES", "OverTimeLimit": "1-00:00:00", "Weight": "8192"}


def declared(provider: str, key: Key) -> ClusterSpec:
    """A cluster of one provider, with the field set."""
    data: dict[str, Any] = load_or_raise(MEGA).model_dump(mode="json", exclude_unset=True)
    data["groups"].reverse()  # edits change the first group, and the one of the controller is small
    data["groups"] = [{**group, "provider": provider} for group in data["groups"]]
    data["partitions"][0]["max_time"] = "24:00:00"
    if key in FIELDS:
        # Of a list of mappings each field is in the table.
        edit = EDITS.get(key.field) or next(v for k, v in EDITS.items() if key.field in k)
        edit(data)
    return ClusterSpec.model_validate(data)


@pytest.mark.parametrize("key", (*FIELDS, *EXTRA), ids=lambda key: key.field)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_field_reaches_slurm_or_is_refused(
    provider: str, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = declared(provider, key)
    refused = [j.path for j in judge(spec) if j.rule == "slurm-field-unused"]
    if not PROVIDERS[provider].configures or key.line:
        assert not refused
    else:
        assert refused == [tuple(key.field.split("."))]
    if PROVIDERS[provider].configures and key.line:
        monkeypatch.setattr(modules, "keys_of_fields", lambda: (key,))
        made = "".join(deployment_of(spec).files.values())
        models: Any = getattr(spec, OF_LINE[key.line])
        ((name, value),) = fields.pairs_of_fields(key.line, models[0], (key,))
        assert f"{name}: {value}" in made or f"{name}: '{value}'" in made
        assert WRITTEN.get(name, value) == value
