"""Reading, judging, correcting and adopting grow with the number of nodes and of lines, not with
its square."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from corral.api.config.adoption import adopt, lint_existing
from corral.errors import Code, CorralError
from corral.slurm.adopt import view
from corral.slurm.adopt.conversion import cluster_file
from corral.slurm.adopt.review import corrected, judge
from corral.spec.slurm.hostlist import expand
from tests.growth import AT_MOST, TIMES, growth
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
    works = [partial(work, make(n), gres(n)) for n in (small, TIMES * small)]
    assert growth(*works) < AT_MOST


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many names each hostlist gave that was expanded."""
    made: list[int] = []

    def counted(hostlist: str) -> list[str]:
        nodes = expand(hostlist)
        made.append(len(nodes))
        return nodes

    monkeypatch.setattr(view, "expand", counted)
    return made


def test_each_hostlist_is_expanded_a_few_times(names: list[int]) -> None:
    work(one_line(4000), "")
    assert 4000 <= sum(names) < 40 * 4000


def test_as_many_nodes_as_slurm_takes() -> None:
    given = existing({"slurm.conf": one_line(65536)})
    text = cluster_file(given, given)
    assert '"n[0-65535]"' in text
    assert 'NodeName=x[0-65536]: the hostlist "x[0-65536]" is broken' in cluster_file(
        *[existing({"slurm.conf": f"{one_line(4)}NodeName=x[0-65536]\n"})] * 2
    )


def test_hostlists_are_not_expanded_without_a_limit(tmp_path: Path, names: list[int]) -> None:
    """200 short lines name 13 million nodes: nothing of them is made."""
    conf = tmp_path / "slurm.conf"
    lines = "".join(f"PartitionName=p{i} Nodes=n[0-65535]\n" for i in range(200))
    conf.write_text(f"{HEAD}NodeName=n[0-65535] {NODE}\n{lines}")
    for use in (lint_existing, adopt):
        with pytest.raises(CorralError) as caught:
            use([tmp_path])
        assert caught.value.code is Code.USAGE and "2000000" in caught.value.message
    conf.write_text(conf.read_text().replace("Nodes=n[0-65535]", "Nodes=ALL"))
    with pytest.raises(CorralError) as caught:
        adopt([tmp_path])
    assert caught.value.code is Code.USAGE
    assert sum(names) < 2_000_000
