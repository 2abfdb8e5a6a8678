"""Provider embedded against a podman in memory: what it observes, plans, makes and removes."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.errors import Code, CorralError, NodesFailedError
from corral.events import Event, Kind, ignore
from corral.providers.base import Action, MachineAction
from corral.providers.containers import layout, machine, removal
from corral.providers.containers.image import Images
from corral.providers.containers.podman import Podman
from corral.providers.embedded import provider
from corral.providers.embedded.provider import EmbeddedProvider
from corral.providers.lookup import providers_of
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir
from tests.unit.providers.containers.fake_podman import HOST_KEY, VOLUMES, FakePodman, option

KEY = "ssh-ed25519 AAAAkey corral"


def spec(**changes: object) -> ClusterSpec:
    group = {"name": "cpu", "provider": "embedded", "nodes": "node[0-2]"}
    group |= {"gpu": {"type": "slot", "count": 2}} | dict(changes.pop("group", {}))  # type: ignore[call-overload]
    fields: dict[str, object] = {
        "corral": "v1",
        "name": "lab",
        "groups": [group],
        "storage": [{"mount": "/shared", "kind": "provider"}],
    }
    return ClusterSpec.model_validate(fields | changes)


@pytest.fixture
def podman(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakePodman]:
    """A podman in memory, its own state folder, an sshd that answers at once."""
    monkeypatch.setenv("CORRAL_STATE_DIR", str(tmp_path / "state"))
    fake = FakePodman()
    limit = tmp_path / "max_user_instances"
    limit.write_text("128")
    monkeypatch.setattr(machine, "WATCHES", limit)

    async def greets(address: str, port: int) -> bool:
        return bool(address and port)

    async def public_key(self: object) -> str:
        folder = cluster_dir("lab")
        (folder / "id_ed25519").write_text("private")
        (folder / "id_ed25519.pub").write_text(KEY)
        return KEY

    async def reference(self: Images, image: str) -> str:
        return f"localhost/corral-node:{image}"

    monkeypatch.setattr(provider, "greets", greets)
    monkeypatch.setattr(provider.Access, "public_key", public_key)
    monkeypatch.setattr(Images, "reference", reference)
    monkeypatch.setattr(machine, "carries", lambda pid, identity: pid == 1)
    monkeypatch.setattr(machine, "cgroup_refusal", lambda: None)
    monkeypatch.setattr(machine, "host_limits", lambda: {"nofile": 20000, "nproc": 32768})
    fake.images |= {"localhost/corral-node:auto"}
    yield fake


def made(fake: FakePodman, declared: ClusterSpec | None = None) -> EmbeddedProvider:
    return EmbeddedProvider(declared or spec(), Podman(("--runtime", "runc"), fake))


def bring_up(fake: FakePodman, declared: ClusterSpec | None = None) -> list[MachineAction]:
    async def run() -> list[MachineAction]:
        embedded = made(fake, declared)
        actions = embedded.plan(await embedded.read_machines())
        await embedded.apply(actions, ignore)
        return list(actions)

    return asyncio.run(run())


def plan(fake: FakePodman, declared: ClusterSpec | None = None) -> dict[str, Action]:
    async def run() -> dict[str, Action]:
        embedded = made(fake, declared)
        return {a.node: a.action for a in embedded.plan(await embedded.read_machines())}

    return asyncio.run(run())


def test_nothing_there_plans_three_containers_and_changes_nothing(podman: FakePodman) -> None:
    assert plan(podman) == dict.fromkeys(("node0", "node1", "node2"), Action.CREATE)
    assert not podman.containers
    assert not podman.networks
    assert {c[0] for c in podman.calls} == {"ps", "network"}


def test_a_plan_names_stand_ins_where_nodes_are_made(podman: FakePodman) -> None:
    words = "its GPUs are {} of type slot: nothing computes on them"
    actions = bring_up(podman)
    assert {action.summary.partition("; ")[2] for action in actions} == {
        words.format("2 stand-ins")
    }
    single = spec(group={"gpu": {"type": "slot", "count": 1}})
    assert all(a.summary.endswith(words.format("1 stand-in")) for a in bring_up(podman, single))
    podman.containers["corral-lab-node1"]["State"] = "exited"
    (start,) = bring_up(podman, single)
    assert start.summary == "container corral-lab-node1 is stopped"
    assert not [a for a in bring_up(podman, spec(group={"gpu": None})) if "GPUs are" in a.summary]


def test_without_root_the_way_out_is_named(
    podman: FakePodman, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider.os, "geteuid", lambda: 2001)
    refusal = asyncio.run(made(podman).read_machines()).refusal
    assert refusal is not None
    assert refusal.code is Code.FORBIDDEN
    assert "corral login USER@HOST" in refusal.hint

    async def broken(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(provider.inventory, "read_machines", broken)
    with pytest.raises(CorralError) as caught:
        asyncio.run(made(podman).read_machines())
    assert caught.value.code is Code.FORBIDDEN


def test_without_permission_for_cgroups_nothing_is_made(
    podman: FakePodman, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes that exist stay usable."""
    bring_up(podman, spec(group={"nodes": "node0"}))
    closed = CorralError(Code.FORBIDDEN, "root may make none here")
    monkeypatch.setattr(machine, "cgroup_refusal", lambda: closed)
    monkeypatch.setattr(provider.os, "geteuid", lambda: 0)
    before = len(podman.calls)
    with pytest.raises(CorralError, match="root may make none here"):
        bring_up(podman)
    assert {call[0] for call in podman.calls[before:]} == {"ps", "network"}
    assert plan(podman, spec(group={"nodes": "node0"})) == {}


def test_after_apply_there_is_nothing_to_do(podman: FakePodman) -> None:
    assert len(bring_up(podman)) == 3
    assert plan(podman) == {}
    before = len(podman.calls)
    assert bring_up(podman) == []
    assert [c[:2] for c in podman.calls[before:]] == [["ps", "--all"], ["network", "ls"]]


def test_every_object_carries_the_label_from_birth(podman: FakePodman) -> None:
    bring_up(podman)
    assert all(c["Labels"]["corral.cluster"] == "lab" for c in podman.containers.values())  # type: ignore[index]
    assert podman.networks["corral-lab"]["labels"] == {"corral.cluster": "lab"}
    assert [v["corral.cluster"] for v in podman.volumes.values()] == ["lab"]


def test_command_line_of_a_node(podman: FakePodman) -> None:
    bring_up(podman)
    argv = next(c for c in podman.calls if c[0] == "run" and "corral-lab-node1" in c)
    address = podman.containers["corral-lab-node1"]["Labels"]["corral.address"]  # type: ignore[index]
    assert option(argv, "--hostname") == "node1"
    assert option(argv, "--ip") == address
    last = [int(part) for part in str(address).split(".")]
    assert option(argv, "--mac-address") == "0a:58:" + ":".join(f"{b:02x}" for b in last)
    assert {"--privileged", "--systemd=always", "--no-hosts", "--pids-limit=-1"} <= set(argv)
    assert "nofile=20000:20000" in argv
    assert "nproc=32768:32768" in argv
    assert option(argv, "--volume").endswith(":/shared")


def test_no_secret_in_an_argument_list_and_the_key_goes_by_stdin(podman: FakePodman) -> None:
    bring_up(podman)
    assert not any(KEY in word for call in podman.calls for word in call)
    assert podman.stdins.count(f"{KEY}\n".encode()) == 3


def test_host_keys_are_pinned_under_the_node_name(podman: FakePodman) -> None:
    bring_up(podman)
    lines = (cluster_dir("lab") / "known_hosts").read_text().splitlines()
    assert sorted(line.split()[0] for line in lines) == ["node0", "node1", "node2"]
    assert all(HOST_KEY in line for line in lines)


def test_stopped_node_is_started_and_keeps_its_address(podman: FakePodman) -> None:
    bring_up(podman)
    before = podman.containers["corral-lab-node1"]["Labels"]
    podman.containers["corral-lab-node1"]["State"] = "exited"
    assert plan(podman) == {"node1": Action.START}
    bring_up(podman)
    assert plan(podman) == {}
    assert podman.containers["corral-lab-node1"]["Labels"] == before


def test_podman_reports_running_but_no_process_is_there(podman: FakePodman) -> None:
    bring_up(podman)
    podman.containers["corral-lab-node2"]["Pid"] = 4711
    assert plan(podman) == {"node2": Action.START}


def test_lost_key_or_killed_create_is_enrolled_again(podman: FakePodman) -> None:
    bring_up(podman)
    (cluster_dir("lab") / "known_hosts").unlink()
    assert set(plan(podman).values()) == {Action.ENROL}
    bring_up(podman)
    assert plan(podman) == {}
    (cluster_dir("lab") / "id_ed25519").unlink()
    assert set(plan(podman).values()) == {Action.ENROL}


@pytest.mark.parametrize(
    "group",
    [
        {"image": "localhost/mine:13"},
        {"memory_mib": 2048},
        {"gpu": {"type": "slot", "count": 3}},
        {"gpu": None},
    ],
)
def test_what_only_a_new_container_can_change(podman: FakePodman, group: dict[str, object]) -> None:
    bring_up(podman)
    assert set(plan(podman, spec(group=group)).values()) == {Action.RECREATE}


def test_gpu_type_and_features_need_no_new_container(podman: FakePodman) -> None:
    bring_up(podman)
    changed = spec(group={"gpu": {"type": "other", "count": 2}, "features": ["fast"]})
    assert plan(podman, changed) == {}


def test_more_and_fewer_nodes_leave_the_others_alone(podman: FakePodman) -> None:
    bring_up(podman)
    addresses = {n: c["Labels"]["corral.address"] for n, c in podman.containers.items()}  # type: ignore[index]
    fewer = spec(group={"nodes": "node[0,2]"})
    assert plan(podman, fewer) == {"node1": Action.REMOVE}
    bring_up(podman, fewer)
    assert sorted(podman.containers) == ["corral-lab-node0", "corral-lab-node2"]
    more = spec(group={"nodes": "node[0,2-4]"})
    assert plan(podman, more) == {"node3": Action.CREATE, "node4": Action.CREATE}
    bring_up(podman, more)
    now = {n: c["Labels"]["corral.address"] for n, c in podman.containers.items()}  # type: ignore[index]
    assert len(set(now.values())) == 4
    assert now["corral-lab-node2"] == addresses["corral-lab-node2"]


def test_two_clusters_do_not_see_each_other(podman: FakePodman) -> None:
    bring_up(podman)
    other = spec(name="other")
    assert len(plan(podman, other)) == 3
    asyncio.run(made(podman, other).destroy(ignore))
    assert len(podman.containers) == 3


def test_destroy_leaves_nothing_and_can_be_repeated(podman: FakePodman) -> None:
    bring_up(podman)
    podman.containers["theirs"] = {
        "Id": "f" * 64,
        "Names": ["theirs"],
        "Labels": {},
        "State": "running",
        "Pid": 1,
    }
    embedded = made(podman)
    gone = asyncio.run(embedded.destroy(ignore))
    assert "container corral-lab-node0" in gone
    assert "network corral-lab" in gone
    assert len([g for g in gone if g.startswith("file ")]) == 3
    assert asyncio.run(embedded.leftovers()) == []
    assert list(podman.containers) == ["theirs"]
    assert asyncio.run(embedded.destroy(ignore)) == ()


def test_nothing_is_removed_while_something_is_mounted_in_a_volume(
    podman: FakePodman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_up(podman)
    (volume,) = podman.volumes
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(removal, "_MOUNTS", mounts)
    line = f"61 29 8:1 / {VOLUMES}/{volume}/_data%s rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    mounts.write_text(line % r"/my\040data" + line % r"/my\040data/deep")
    with pytest.raises(CorralError) as caught:
        asyncio.run(made(podman).destroy(ignore))
    assert caught.value.code is Code.BUSY
    assert f"{VOLUMES}/{volume}/_data/my data/deep" in caught.value.message
    assert len(podman.containers) == 3
    # The volume's own folder, and other folders whose names begin alike.
    mounts.write_text(line % "" + line % "2" + "62 29 8:1 / / rw - ext4 /dev/sda1 rw\n")
    asyncio.run(made(podman).destroy(ignore))
    assert not podman.volumes


def test_destroy_fails_when_something_is_left(podman: FakePodman) -> None:
    bring_up(podman)

    async def stubborn() -> None:
        embedded = made(podman)
        kept = dict(podman.volumes)
        drop = podman._drop
        podman._drop = lambda have, args: (drop(have, args), podman.volumes.update(kept))[0]  # type: ignore[method-assign]
        await embedded.destroy(ignore)

    with pytest.raises(CorralError) as caught:
        asyncio.run(stubborn())
    assert caught.value.code is Code.PROVIDER_FAILED
    assert "volume corral-lab-shared-" in caught.value.tail


@pytest.mark.parametrize("verb", ["network create", "volume create", "run", "exec"])
def test_a_failure_at_any_point_is_found_again_and_finished(podman: FakePodman, verb: str) -> None:
    podman.fail[verb] = "no space left on device"
    with pytest.raises(CorralError) as caught:
        bring_up(podman)
    assert caught.value.code is Code.PROVIDER_FAILED
    assert "free some space" in caught.value.hint
    assert "podman" in caught.value.command
    podman.fail.clear()
    bring_up(podman)
    assert plan(podman) == {}
    assert len(podman.containers) == 3
    asyncio.run(made(podman).destroy(ignore))
    assert asyncio.run(made(podman).leftovers()) == []


def test_what_a_killed_ones_podman_still_makes_is_taken_over(podman: FakePodman) -> None:
    """Seen 2 times in 12 where the kill came while "podman run" ran."""
    podman.racing = {"corral-lab-node1": {}}
    assert len(bring_up(podman)) == 3
    assert plan(podman) == {}


def test_another_container_of_that_name_is_not_taken_over(podman: FakePodman) -> None:
    podman.racing = {"corral-lab-node1": {layout.SPEC: "other"}}
    with pytest.raises(CorralError) as caught:
        bring_up(podman)
    assert "already in use" in caught.value.tail


def test_several_failures_come_together(podman: FakePodman) -> None:
    podman.fail["run"] = "error setting rlimit type 7"
    seen: list[Event] = []

    async def run() -> None:
        embedded = made(podman)
        await embedded.apply(embedded.plan(await embedded.read_machines()), seen.append)

    with pytest.raises(NodesFailedError) as caught:
        asyncio.run(run())
    assert sorted(e.node for e in caught.value.errors) == ["node0", "node1", "node2"]
    assert [e.kind for e in seen].count(Kind.NODE_FAILED) == 3


def test_traits_and_prediction(podman: FakePodman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "host_memory_mib", lambda: 8192)
    embedded = made(podman, spec(group={"memory_mib": None}))
    asyncio.run(embedded.read_machines())
    assert embedded.traits("node0").memory_mib == 2048
    assert embedded.traits("node0").gpu_devices == ("/dev/nvidia0", "/dev/nvidia1")
    assert embedded.traits("node0").shared == ("/shared",)
    assert not embedded.traits("node0").own_clock
    facts = embedded.predict("node1")
    assert facts.memory_mib == 2048
    assert facts.address == embedded.address("node1")
    assert facts.sockets * facts.cores_per_socket * facts.threads_per_core == facts.cpus


def test_memory_of_a_node_that_exists_is_what_it_was_made_with(
    podman: FakePodman, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "host_memory_mib", lambda: 8192)
    bring_up(podman)
    monkeypatch.setattr(machine, "host_memory_mib", lambda: 65536)
    embedded = made(podman)
    asyncio.run(embedded.read_machines())
    assert embedded.traits("node0").memory_mib == 2048


def test_unknown_node_is_not_found(podman: FakePodman) -> None:
    embedded = made(podman)
    asyncio.run(embedded.read_machines())
    for ask in (embedded.address, embedded.ssh_target, embedded.traits, embedded.predict):
        with pytest.raises(CorralError) as caught:
            ask("nobody")
        assert caught.value.code is Code.NOT_FOUND


def test_missing_podman_comes_with_how_to_get_it(tmp_path: Path) -> None:
    async def absent(argv: object, *, stdin: bytes = b"", timeout: float) -> object:
        raise CorralError(Code.MISSING_TOOL, "podman is not installed on this machine")

    with pytest.raises(CorralError) as caught:
        asyncio.run(EmbeddedProvider(spec(), Podman((), absent)).read_machines())  # type: ignore[arg-type]
    assert caught.value.code is Code.MISSING_TOOL
    assert "apt install podman" in caught.value.hint


def test_podman_that_hangs_is_a_timeout() -> None:
    async def hangs(argv: object, *, stdin: bytes = b"", timeout: float) -> object:
        raise TimeoutError

    with pytest.raises(CorralError) as caught:
        asyncio.run(Podman((), hangs).text("ps"))  # type: ignore[arg-type]
    assert caught.value.code is Code.TIMED_OUT


def test_providers_of_a_mixed_file_see_their_own_nodes_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "host_runtime", tuple)  # whatever this machine has
    mixed = spec(
        groups=[
            {"name": "here", "provider": "embedded", "nodes": "e[0-1]"},
            {"name": "there", "provider": "ssh", "nodes": "s0", "addresses": "192.0.2.7"},
        ]
    )
    names = {p.name: [n.name for n in p.nodes] for p in providers_of(mixed)}
    assert names == {"embedded": ["e0", "e1"], "ssh": ["s0"]}


def test_state_folder_is_private(podman: FakePodman) -> None:
    assert cluster_dir("lab").stat().st_mode & 0o777 == 0o700
    for bad in ("..", "a/b", "", "A", "a\n"):
        with pytest.raises(CorralError):
            cluster_dir(bad)


def test_hints_quote_nothing_that_breaks_a_shell(podman: FakePodman) -> None:
    bring_up(podman)
    for call in podman.calls:
        assert shlex.split(shlex.join(call)) == call
