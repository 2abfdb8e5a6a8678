"""Reading, judging, correcting and adopting grow with the number of nodes and of lines, not with
its square."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.api.config.adoption import adopt, lint_existing
from corral.errors import Code, CorralError
from corral.slurm.adopt import view
from corral.slurm.adopt.conversion import cluster_file
from corral.slurm.adopt.review import corrected, judge
from corral.spec.hostlist import expand
from tests.unit.slurm.adopt.files import GOOD, SLURM, existing

HEAD = SLURM.partition("NodeName=")[0]
NODE = "CPUs=4 RealMemory=8000 Gres=gpu:1 Feature=a"


def one_line(n: int) -> str:
    line = f"NodeName=n[0-{n - 1}] {NODE}\n"
    return f"{HEAD}{line}PartitionName=p Nodes=n[0-{n - 1}]\nPartitionName=q Nodes=ALL\n"


def many_lines(n: int) -> str:
    lines = "".join(f"NodeName=n{i} State=UNKNOWN\n" for i in range(n))
    return f"{HEAD}{lines}PartitionName=p Nodes=n[0-{n - 1}] Default=YES\n"


def many_partitions(n: int) -> str:
    lines = "".join(f"PartitionName=p{i} Nodes=n{i}\n" for i in range(n))
    return f"{HEAD}NodeName=n[0-{n - 1}] {NODE}\n{lines}"


def all_in_each_partition(n: int) -> str:
    """As many memberships as n: of each node in each partition."""
    partitions = int(n**0.5) * 2
    lines = "".join(f"PartitionName=p{i} Nodes=ALL\n" for i in range(partitions))
    return f"{HEAD}NodeName=n[0-{partitions - 1}] {NODE}\n{lines}"


def many_features(n: int) -> str:
    """Half of them no names in Corral."""
    features = ",".join(f"f{i},f{i}!" for i in range(10 * n))
    return f"{HEAD}NodeName=n[0-{n - 1}] {NODE}\nNodeName=m CPUs=1 Feature={features}\n"


def gres_per_node(n: int) -> str:
    return "".join(f"NodeName=n{i} Name=gpu File=/dev/nvidia0\n" for i in range(n))


def work(conf: str, gres: str) -> None:
    files = {"slurm.conf": conf, "gres.conf": gres, "cgroup.conf": GOOD["cgroup.conf"]}
    given = existing(files)
    for judgement in judge(given):
        judgement.finding()
    cluster_file(corrected(given), given)


def seconds(conf: str, gres: str, turns: int = 3) -> float:
    """The least of some turns, of this process alone."""
    times: list[float] = []
    for _ in range(turns):
        start = time.process_time()
        work(conf, gres)
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("small", [125, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "make",
    [one_line, many_lines, many_partitions, all_in_each_partition, many_features],
    ids=lambda m: m.__name__,
)
@pytest.mark.parametrize("gres", [lambda n: "", gres_per_node], ids=["plain", "gres"])
def test_four_times_the_size_takes_no_sixteen_times(
    make: Callable[[int], str], gres: Callable[[int], str], small: int
) -> None:
    limit = 10 * seconds(make(small), gres(small)) + 0.1 * small / 500  # linear is 4, quadratic 16
    large = make(4 * small), gres(4 * small)
    # Once is enough where it is fast enough: what disturbs a machine only slows it down.
    assert seconds(*large, turns=1) < limit or seconds(*large) < limit


def test_each_hostlist_is_expanded_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    names = 0

    def counted(hostlist: str) -> list[str]:
        nonlocal names
        nodes = expand(hostlist)
        names += len(nodes)
        return nodes

    monkeypatch.setattr(view, "expand", counted)
    work(one_line(4000), "")
    assert names < 40 * 4000


def test_as_many_nodes_as_slurm_takes() -> None:
    given = existing({"slurm.conf": one_line(65536)})
    text = cluster_file(given, given)
    assert '"n[0-65535]"' in text
    assert 'NodeName=x[0-65536]: the hostlist "x[0-65536]" is broken' in cluster_file(
        *[existing({"slurm.conf": f"{one_line(4)}NodeName=x[0-65536]\n"})] * 2
    )


def test_hostlists_are_not_expanded_without_a_limit(tmp_path: Path) -> None:
    """200 short lines name 13 million nodes: nothing of them is made."""
    conf = tmp_path / "slurm.conf"
    lines = "".join(f"PartitionName=p{i} Nodes=n[0-65535]\n" for i in range(200))
    conf.write_text(f"{HEAD}NodeName=n[0-65535] {NODE}\n{lines}")
    start = time.process_time()
    for use in (lint_existing, adopt):
        with pytest.raises(CorralError) as caught:
            use([tmp_path])
        assert caught.value.code is Code.USAGE and "2000000" in caught.value.message
    conf.write_text(conf.read_text().replace("Nodes=n[0-65535]", "Nodes=ALL"))
    with pytest.raises(CorralError) as caught:
        adopt([tmp_path])
    assert caught.value.code is Code.USAGE
    assert time.process_time() - start < 20
