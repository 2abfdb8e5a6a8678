"""A cluster of Google's toolkit as an ordinary specification: what is filled in, and what stays."""

from __future__ import annotations

from pathlib import Path

from corral.providers.gcp.machines import gpu_machines
from corral.providers.gcp.section import Gcp, GcpStorage
from corral.providers.gcp.toolkit_cluster import as_made, login_of
from corral.providers.gcp.toolkit_cluster import section_of as gcp_of
from corral.spec.load import load_or_raise
from corral.spec.nodes import users_of
from corral.spec.providers import machines_on
from corral.spec.rehearsal import rehearse
from corral.spec.sections.provider_section import NcclTests, Section
from corral.spec.sections.provider_setup import completed, is_configured, section_of

EXAMPLES = Path(__file__).parents[4] / "examples"


def test_what_the_toolkit_makes_is_filled_in() -> None:
    spec = as_made(load_or_raise(EXAMPLES / "a3mega.yaml"))
    assert is_configured(spec)
    # A bucket is not a place for a job's files.
    assert [(s.mount, s.kind) for s in spec.storage] == [("/home", "existing")]
    assert [u.name for u in users_of(spec)] == ["you_example_com"] == [login_of(spec)]
    assert not spec.slurm.rest
    assert spec.health.every == "off"
    assert as_made(spec) == spec
    assert completed(load_or_raise(EXAMPLES / "a3mega.yaml")) == spec


def test_what_other_code_asks_of_the_section() -> None:
    spec = load_or_raise(EXAMPLES / "a3mega.yaml")
    section = section_of(spec)
    assert isinstance(section, Gcp) and section is gcp_of(spec)
    assert section.removal("mega-[0-1]", "mega") == (
        "Has gcluster destroy mega-[0-1] of cluster mega, its networks, and its file systems with "
        "all that is on them (/home, /gcs)."
    )
    existing = {"mount": "/old", "kind": "bucket", "existing": "my-data"}
    storage = (*section.storage, GcpStorage.model_validate(existing))
    assert (
        section.model_copy(update={"storage": storage})
        .removal("n", "mega")
        .endswith("all that is on them (/home, /gcs). Existing file systems stay (/old).")
    )
    assert section.model_copy(update={"storage": storage[2:]}).removal("n", "mega") == (
        "Has gcluster destroy n of cluster mega, its networks. Existing file systems stay (/old)."
    )
    tests = section.model_copy(update={"nccl_tests": "/home/tests", "nccl_image": "/home/i.sqsh"})
    assert tests.nccl() == NcclTests("/home/tests", "/home/i.sqsh")
    assert section.model_copy(update={"nccl_tests": None}).nccl() is None
    assert section_of(load_or_raise(EXAMPLES / "lab-3x5090.yaml")) is None
    assert Section().nccl() is None
    assert Section().removal("a", "b") == "Removes a of cluster b and all that is on them."


def test_machines_come_with_their_fabric() -> None:
    groups = {group.name: group.fabric for group in load_or_raise(EXAMPLES / "a3mega.yaml").groups}
    assert set(groups.values()) == {"tcpxo", ""}
    assert list(machines_on("tcpxo")) == ["a3-megagpu-8g"]
    assert set(machines_on("tcpxo")) | set(machines_on("gib")) == set(gpu_machines())
    assert not machines_on("infiniband")


def test_what_the_file_declares_stays() -> None:
    spec = load_or_raise(EXAMPLES / "a3mega.yaml")
    data = spec.model_dump(exclude_unset=True)
    data["slurm"] = {"rest": True, "version": ">=25.05"}
    data["health"] = {"every": "5m"}
    data["users"] = [{"name": "alice", "uid": 2001}]
    made = as_made(type(spec).model_validate(data))
    assert (made.slurm.rest, made.slurm.version, made.health.every) == (True, ">=25.05", "5m")
    assert [u.name for u in made.users] == ["alice"]


def test_other_clusters_and_rehearsals_are_left_alone() -> None:
    lab = load_or_raise(EXAMPLES / "lab-3x5090.yaml")
    assert as_made(lab) is lab
    tried = rehearse(as_made(load_or_raise(EXAMPLES / "a3mega.yaml")))
    assert not is_configured(tried)
    assert {g.provider for g in tried.groups} == {"embedded"}
    assert [(s.mount, s.kind) for s in tried.storage] == [("/home", "provider")]
