"""Figures of Google Cloud: the cluster file's help and types state the same."""

from __future__ import annotations

from typing import get_args

from corral.providers.gcp.blueprint.releases import known_releases, modules
from corral.providers.gcp.figures import figures
from corral.providers.gcp.machines import gpu_machines
from corral.providers.gcp.section import Gcp, GcpStorage
from corral.spec.providers import PROVIDERS


def test_the_help_states_the_sizes() -> None:
    fields = GcpStorage.model_fields
    size = f"left out: {figures().lustre.usual_gib} of Lustre, {figures().filestore.least_gib} of"
    assert size in str(fields["size_gib"].description)
    *low, top = sorted(figures().lustre.step_gib)
    tiers = f"{', '.join(map(str, low))} or {top}"
    assert tiers in str(fields["mbps_per_tib"].description)
    assert fields["mbps_per_tib"].default in figures().lustre.step_gib


def test_every_machine_type_that_groups_name_is_known() -> None:
    known = gpu_machines().keys() | figures().cpu_machines.keys()
    assert set(PROVIDERS["gcp"].machines) == known


def test_releases_are_those_of_the_field_and_each_has_its_modules() -> None:
    assert set(get_args(Gcp.model_fields["toolkit"].annotation)) == set(known_releases().releases)
    assert all(modules(release) for release in known_releases().releases)


def test_every_kind_of_file_system_has_a_form_of_its_name() -> None:
    assert set(figures().existing) == set(get_args(GcpStorage.model_fields["kind"].annotation))
