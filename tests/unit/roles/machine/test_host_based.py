"""Who logs in from node to node without keys, and which nodes take part."""

from __future__ import annotations

from dataclasses import replace

from corral.roles.inventory import Site
from corral.roles.order import desired_stages
from corral.spec.sections.people import Access
from corral.state.network.host_based import CLIENT, DROP_IN, HOSTS, HostBased
from tests.unit.roles.test_cluster import directory

KEY = f"ssh-ed25519 {'A' * 68}"


def declared(*, on: bool = True) -> Site:
    plain = directory()
    spec = plain.spec.model_copy(update={"access": Access(ssh="jobs_only", between_nodes=on)})
    keys = {name: replace(facts, host_key=KEY) for name, facts in plain.facts.items()}
    return replace(plain, spec=spec, facts=keys)


def policies(site: Site) -> dict[str, HostBased]:
    access = next(stage for stage in desired_stages(site) if stage.name == "access")
    return {
        node: resource
        for entry in access.desired
        for node in entry.nodes
        for resource in entry.resources
        if isinstance(resource, HostBased)
    }


def test_people_of_the_file_and_of_the_directory_without_those_who_may_sudo() -> None:
    policy = policies(declared())["a1"]
    files = dict(policy.files)
    match = next(line for line in files[DROP_IN].splitlines() if line.startswith("Match"))
    assert match == ("Match User *,!root,!ada Group corral-people,vision,guests,!sudo,!root")
    assert policy.person == "alice"
    assert "ctl" in files[HOSTS].split()


def test_nobody_logs_in_so_to_a_node_without_jobs() -> None:
    files = dict(policies(declared())["ctl"].files)
    assert (files[DROP_IN], files[HOSTS]) == ("", "")
    assert "a1" in files[CLIENT].split()


def test_a_node_whose_key_is_not_known_is_not_trusted() -> None:
    site = declared()
    facts = {**site.facts, "a1": replace(site.facts["a1"], host_key="")}
    files = dict(policies(replace(site, facts=facts))["a1"].files)
    assert "a1" not in files[HOSTS].split()


def test_all_of_it_goes_without_the_field() -> None:
    assert set(policies(declared(on=False)).values()) == {HostBased()}
