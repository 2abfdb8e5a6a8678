"""What render refuses, what it folds, how it grows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.slurm.conf.conf_file import Setting
from corral.slurm.conf.model import ClusterConf, GpuConf, PartitionConf
from corral.slurm.conf.parse import parse
from corral.slurm.conf.real_memory import real_memory
from corral.slurm.version import SlurmVersion
from corral.spec.slurm.hostlist import expand
from tests.unit.slurm.clusters import CLUSTERS, LAPTOP, PLAIN, SLOTS, cluster, nodes, render

NAMES = st.from_regex(r"[a-z][a-z-]{0,3}[0-9]{0,4}[a-z]?[0-9]{0,3}", fullmatch=True).filter(
    lambda name: name[-1] != "-"
)
ADDRESSES = st.from_regex(r"10\.[0-2]\.[0-3]\.([1-9][0-9]?)", fullmatch=True)


def pairs_of(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for line in parse(text).lines("NodeName"):
        names = expand(line.get("NodeName") or "")
        addresses = expand(line.get("NodeAddr") or "")
        assert len(names) == len(addresses)
        pairs |= dict(zip(names, addresses, strict=True))
    return pairs


@given(
    st.lists(NAMES.filter(lambda n: n != "all"), min_size=1, max_size=40, unique=True),
    st.data(),
)
def test_names_keep_their_addresses(names: list[str], data: st.DataObject) -> None:
    count = len(names)
    addresses = data.draw(st.lists(ADDRESSES, min_size=count, max_size=count, unique=True))
    kinds = data.draw(st.lists(st.sampled_from([SLOTS, PLAIN]), min_size=count, max_size=count))
    members = tuple(
        replace(kind, name=name, address=address)
        for kind, name, address in zip(kinds, names, addresses, strict=True)
    )
    text = render(cluster(members, controller="ctl"))["slurm.conf"]
    assert pairs_of(text) == dict(zip(names, addresses, strict=True))


def test_ten_thousand_nodes_fold_to_one_line() -> None:
    members = tuple(
        replace(PLAIN, name=f"n{i:05}", address=f"10.{i // 65536}.{i // 256 % 256}.{i % 256}")
        for i in range(256, 10_256)
    )
    text = render(cluster(members, controller="ctl"))["slurm.conf"]
    assert text.count("NodeName=") == 1
    assert len(pairs_of(text)) == 10_000
    assert len(text) < 4_000


def test_gpus_are_declared_everywhere_or_nowhere() -> None:
    files = render(LAPTOP)
    assert "GresTypes=gpu" in files["slurm.conf"]
    assert "Gres=gpu:fake:2" in files["slurm.conf"]
    assert "File=/dev/nvidia[0-1]" in files["gres.conf"]
    files = render(CLUSTERS["no-gpu"])
    assert "gres" not in files["slurm.conf"].lower()
    assert not parse(files["gres.conf"]).lines("NodeName")


def test_default_memory_is_the_smallest_nodes_share() -> None:
    big, small = nodes(2, PLAIN, "10.0.0")
    small = replace(small, memory_mib=64_000)
    text = render(cluster((big, small)))["slurm.conf"]
    (line,) = parse(text).lines("PartitionName")
    assert line.get("defmempercpu") == str(real_memory(64_000) // 64)


def test_memory_that_moves_a_little_is_the_same_memory() -> None:
    assert real_memory(15_900) == real_memory(15_880) == 15_360
    assert real_memory(2_063_000) == real_memory(2_062_500) == 1_998_848
    for reported in range(1, 5000):
        assert 0.94 * reported - 16 <= real_memory(reported) <= 0.97 * reported


def broken(**changes: object) -> ClusterConf:
    return replace(LAPTOP, **changes)  # type: ignore[arg-type]


def with_node(**changes: object) -> ClusterConf:
    return replace(LAPTOP, nodes=(replace(LAPTOP.nodes[0], **changes), *LAPTOP.nodes[1:]))  # type: ignore[arg-type]


def with_partition(name: str, time: str = "INFINITE", *more: str) -> ClusterConf:
    return broken(partitions=(PartitionConf(name, ("node0", *more), True, time),))


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        (broken(name="a b"), "cluster name"),
        (broken(name="x" * 41), "cluster name"),
        (broken(controller="node0\nSlurmUser=root"), "controller"),
        (broken(controller_address="10.0.0.1)"), "controller address"),
        (broken(accounting_host="$(id)"), "accounting host"),
        (broken(nodes=(), partitions=()), "no node"),
        (broken(version=SlurmVersion(20, 11)), "is not among"),
        (broken(version=SlurmVersion(22, 5)), "auth/slurm needs"),
        (broken(version=SlurmVersion(21, 8), auth="munge", cgroup="v2"), "cgroup v2 needs"),
        (replace(CLUSTERS["mixed"], version=SlurmVersion(24, 5)), "AutoDetect=nvidia needs"),
        (with_node(name="DEFAULT"), "cannot be a node name"),
        (with_node(name="a#b"), "cannot be a node name"),
        (with_node(name="node1"), "2 nodes have the name"),
        (with_node(address="10.88.0.11"), "2 nodes have the address"),
        (with_node(address="1.2.3.4 State=DOWN"), "is not an address"),
        (with_node(port=70000), "port 70000"),
        (with_node(cpus=3), "3 CPUs are not 2"),
        (with_node(cpus=0, sockets=0), "CPUs"),
        (with_node(memory_mib=1), "is not a memory"),
        (with_node(features=("a b",)), "cannot be a feature"),
        (with_node(gpus=(GpuConf("RTX 5090", 1, "/dev/nvidia0"),)), "cannot be a GPU type"),
        (with_node(gpus=(GpuConf("a", -1, "/dev/nvidia0"),)), "-1 GPUs"),
        (with_node(gpus=(GpuConf("a", 1, "/etc/passwd"),)), "does not name GPU device files"),
        (with_partition("default"), "cannot be a partition name"),
        (with_partition("main", "forever"), "is not a time limit"),
        (with_partition("main", "INFINITE", "ghost"), "names ghost"),
        (broken(partitions=(PartitionConf("p", (), True, "1"),)), "has no node"),
        (broken(partitions=LAPTOP.partitions * 2), "more than one default"),
        (broken(settings=(Setting("Prolog", "/bin/x\nSlurmUser=root"),)), "is not one word"),
        (broken(settings=(Setting("Prolog", "/bin/x # y"),)), "is not one word"),
        (broken(settings=(Setting("Prolog", ""),)), "is not one word"),
    ],
)
def test_refused(conf: ClusterConf, reason: str) -> None:
    with pytest.raises(CorralError) as caught:
        render(conf)
    assert caught.value.code is Code.SPEC_INVALID
    assert reason in caught.value.message


def test_many_errors_are_counted() -> None:
    members = tuple(replace(node, cpus=7) for node in nodes(20, SLOTS, "10.0.0"))
    with pytest.raises(CorralError, match="and 10 more"):
        render(cluster(members))


@given(st.text(max_size=30))
def test_no_text_becomes_a_line_of_its_own(text: str) -> None:
    expected = {name: body.count("\n") for name, body in render(LAPTOP).items()}
    for conf in (
        broken(name=text),
        broken(controller=text),
        broken(controller_address=text),
        with_node(address=text),
        with_node(gpus=(GpuConf(text, 1, "/dev/nvidia0"),)),
        with_node(features=(text,)),
        with_node(gpus=(GpuConf("a", 1, text),)),
        with_partition(text),
        with_partition("main", text),
        broken(settings=(Setting("SlurmdTimeout", text),)),
    ):
        try:
            files = render(conf)
        except CorralError:
            continue
        for name, body in files.items():
            # one line more: a node that now differs from the others gets its own
            assert body.count("\n") <= expected[name] + 1
            assert all(not line.rest for line in parse(body).lines())


def test_settings_of_the_file_take_the_place_of_corrals_or_join_them() -> None:
    text = render(CLUSTERS["settings"])["slurm.conf"]
    assert "\nMaxArraySize=10001\n" in text
    assert "\nMessageTimeout=60\n" in text
    assert text.count("MessageTimeout=") == 1
    # Slurm reads the first bf_interval of several.
    order = "nohold_on_prolog_fail,batch_sched_delay=0,bf_interval=60,bf_continue"
    assert f"\nSchedulerParameters={order}\n" in text
    assert "\nPrologFlags=X11,contain\n" in text


@pytest.mark.parametrize(
    ("key", "version", "span"),
    [
        ("HashPlugin", SlurmVersion(23, 11, 4), "from 24.05 on"),
        ("FastSchedule", SlurmVersion(24, 11, 5), "before 20.02"),
    ],
)
def test_a_setting_that_the_machines_release_lacks_is_refused(
    key: str, version: SlurmVersion, span: str
) -> None:
    conf = replace(LAPTOP, version=version, auth="munge", declared=(Setting(key, "1"),))
    with pytest.raises(CorralError, match=f"slurm.settings.{key}: Slurm has it {span}") as caught:
        render(conf)
    assert caught.value.code is Code.SPEC_INVALID


def test_a_key_without_a_reason_is_for_the_file_alone() -> None:
    with pytest.raises(KeyError):
        render(replace(LAPTOP, settings=(Setting("KillWait", "20"),)))


@given(st.text(st.sampled_from("ab= ,\"'#\n$\\\0"), min_size=1, max_size=8))
def test_no_value_of_a_setting_becomes_another_line(value: str) -> None:
    conf = replace(LAPTOP, declared=(Setting("KillWait", value),))
    try:
        text = render(conf)["slurm.conf"]
    except CorralError:
        return
    others = render(LAPTOP)["slurm.conf"].splitlines()
    assert [line for line in text.splitlines() if line not in others] == [
        "# Settings of the cluster file",
        f"KillWait={value}",
    ]
