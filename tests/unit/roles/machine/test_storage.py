"""NFS in roles: a new node adds one export line, and no other node mounts again."""

from __future__ import annotations

import base64
from dataclasses import replace

from corral.plan.make import resources_of
from corral.roles.inventory import Site
from corral.roles.order import desired_stages
from corral.spec.impacts import Impact
from corral.spec.models import ClusterSpec, NodeGroup, Storage
from corral.state.base import Context, DesiredStage, Resource, Seen
from corral.state.storage.exports import Exports
from corral.state.storage.fstab import FormerMounts, Mount
from tests.unit.roles.test_cluster import people, site


def of_stages(cluster: Site) -> list[DesiredStage]:
    return [s for s in desired_stages(cluster) if s.name in ("unmount", "exports", "mounts")]


def held(spec: ClusterSpec, **facts: object) -> dict[str, dict[str, Resource]]:
    """Resources of the storage stages by node and id."""
    cluster = site(spec, **facts)
    resources = resources_of(of_stages(cluster))
    return {node: {r.id: r for r in on_node} for node, on_node in resources.items()}


def exported(spec: ClusterSpec) -> list[str]:
    exports = held(spec)["ctl"]["exports"]
    assert isinstance(exports, Exports)
    return exports.content.splitlines()


def wider() -> ClusterSpec:
    """With one node more."""
    spec = people()
    more = NodeGroup(name="c", provider="ssh", nodes="c0", addresses="10.0.0.14")
    return spec.model_copy(update={"groups": (*spec.groups, more)})


def test_each_client_has_a_line_of_its_own_and_the_server_none() -> None:
    head, *lines = exported(people())
    assert head.startswith("#")
    assert [line.partition("(")[0] for line in lines] == [
        f"/srv/shared 10.0.0.{last}" for last in (11, 12, 13)
    ]
    assert all("root_squash" in line and "no_root_squash" not in line for line in lines)


def test_a_node_more_is_a_line_more_and_no_other_mount_changes() -> None:
    before, after = held(people()), held(wider())
    assert [x for x in exported(wider()) if x not in exported(people())] == [
        exported(people())[-1].replace("10.0.0.13", "10.0.0.14")
    ]
    for node in before:
        mounts = {i: r for i, r in before[node].items() if isinstance(r, Mount | FormerMounts)}
        assert mounts, node
        assert mounts == {i: after[node][i] for i in mounts}
    assert "mount:/shared" in after["c0"]


def test_a_node_more_reloads_the_exports_and_reports_it() -> None:
    old, new = held(people())["ctl"]["exports"], held(wider())["ctl"]["exports"]
    assert isinstance(old, Exports)
    change = new.diff(Seen(0, answered(old)), Context("ctl"))
    assert change is not None
    assert change.summary == "serve /srv/shared: 1 lines more, 0 less"
    assert change.impact is Impact.RELOAD
    assert old.diff(Seen(0, answered(old)), Context("ctl")) is None


def answered(exports: Exports) -> str:
    """What the probe answers where all of it is served."""
    lines = [f"{e.path} {client} {e.squash}\n" for e in exports.exports for client in e.clients]
    texts = (exports.content, "".join(lines))
    return " ".join(base64.b64encode(text.encode()).decode() for text in texts)


def test_clients_wait_for_their_server_and_the_server_binds() -> None:
    mounts = held(people())
    client, server = mounts["a0"]["mount:/shared"], mounts["ctl"]["mount:/shared"]
    assert isinstance(client, Mount)
    assert isinstance(server, Mount)
    assert client.source == "10.0.0.10:/srv/shared"
    assert {"hard", "vers=4.2", "nconnect=4"} <= set(client.options.split(","))
    assert (server.source, server.bind) == ("/srv/shared", True)
    old = held(people(), kernel="4.18.0")["a0"]["mount:/shared"]
    assert isinstance(old, Mount)
    assert "nconnect" not in old.options


def test_a_server_that_shows_its_folder_in_place_mounts_nothing() -> None:
    spec = people().model_copy(
        update={"storage": (Storage(mount="/shared", kind="nfs", server="ctl", path="/shared"),)}
    )
    mounts = held(spec)
    assert "mount:/shared" not in mounts["ctl"]
    assert "mount:/shared" in mounts["a0"]


def test_an_address_that_is_a_name_is_exported_as_the_number_that_was_found() -> None:
    spec = people()
    cluster = site(spec)
    named = replace(cluster, addresses={**cluster.addresses, "a0": "a0.example"})
    exports = next(r for r in resources_of(of_stages(named))["ctl"] if isinstance(r, Exports))
    assert exports.exports[0].clients[0] == "10.0.0.11"
