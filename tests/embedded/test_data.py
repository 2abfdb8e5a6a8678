"""Data sets on a real cluster: sent once, made over there, read by ranks, measured by nodes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from corral import api
from corral.api.cluster import Cluster
from corral.errors import Code, CorralError
from corral.hosts.fleet import Fleet
from corral.hosts.quote import sh
from corral.jobs import control
from corral.jobs.follow import RankLine
from corral.jobs.model import parse_job
from corral.jobs.submit import submit

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

HOME = "/shared/corral/data/corral"
READ = """\
import os, sys
from corral.shards import Shards
data = Shards(sys.argv[1], cache=f"/tmp/cache-{os.environ['SLURM_JOB_ID']}")
found = [(s["__key__"].decode(), int(s["cls"]), len(s["bin"])) for s in data.epoch(0)]
print("got", *sorted(f"{key}={label}={size}" for key, label, size in found))
"""
BY_NUMBER = """\
import os, sys
from corral.samples import Samples
from corral.shards import ShardError
data = Samples(sys.argv[1], cache="/tmp/cache-samples")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
got = [data[i] for i in range(rank, len(data), world)]
print("got", *sorted(f"{s['__key__'].decode()}={int(s['cls'])}={len(s['bin'])}" for s in got))
print("file", os.environ["SLURMD_NODENAME"], os.stat(data.file).st_ino)
"""


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "it's $HOME"
    for number, kind in enumerate(("cat", "dog")):
        (folder / kind).mkdir(parents=True)
        for i in range(20):
            (folder / kind / f"{i:02d}.bin").write_bytes(bytes([number]) * (1000 + i))
    return folder


def test_sent_once_read_by_all_ranks_and_measured(
    cluster: Live, images: Path, tmp_path: Path
) -> None:
    def shard() -> api.DataSet:
        return asyncio.run(
            api.shard_data(cluster.spec, str(images), name="images", size=16384, labels=True)
        )

    try:
        first = shard()
        assert (first.folder, first.samples) == (f"{HOME}/images", 40)
        assert first.new == first.shards > 2
        assert shard().new == 0
        lost = sh("rm {f}/images-000001.tar && rm {f}/.images-000002.tar.json", f=first.folder)
        assert cluster.run("node1", lost).ok
        assert shard().new == 2
        script = tmp_path / "read.py"
        script.write_text(READ)
        lines: list[RankLine] = []

        async def work(fleet: Fleet) -> bool:
            fields = {"script": str(script), "folder": "none", "nodes": 3, "args": [first.folder]}
            job = await submit(fleet, cluster.controller, cluster.spec, parse_job(fields))
            return (await control.follow(fleet, job, on_line=lines.append)).good

        assert cluster.with_fleet(work), lines
        got = [
            word for line in lines if line.text.startswith("got") for word in line.text.split()[1:]
        ]
        expected = {
            f"{k}/{i:02d}={n}={1000 + i}" for n, k in enumerate(("cat", "dog")) for i in range(20)
        }
        assert sorted(got) == sorted(expected), "each sample once, over all ranks"

        fed = asyncio.run(
            api.bench_data(cluster.spec, "images", seconds=0.5, per_gpu=10_000_000_000)
        )
        assert {rate.node for rate in fed.together} == {"node0", "node1", "node2"}
        assert all(rate.samples_per_second > 0 for rate in (*fed.alone, *fed.together))
        assert set(fed.starving) == {"node0", "node1", "node2"}
        easy = asyncio.run(api.bench_data(cluster.spec, "images", seconds=0.5, per_gpu=0.001))
        assert easy.starving == ()
    finally:
        cluster.run("node0", sh("rm -rf {f}", f=f"{HOME}/images"))


def test_a_folder_on_shared_storage_is_packed_over_there(cluster: Live) -> None:
    make = sh(
        "mkdir -p /shared/raw/a && for i in 1 2 3; do echo $i > /shared/raw/a/$i.txt; done && "
        "chmod -R a+rX /shared/raw"
    )
    assert cluster.run("node2", make).ok
    try:
        packed = asyncio.run(api.shard_data(cluster.spec, "/shared/raw"))
        assert (packed.folder, packed.samples, packed.new) == (f"{HOME}/raw", 3, 1)
        assert asyncio.run(api.shard_data(cluster.spec, "/shared/raw")).new == 0
        index = json.loads(cluster.run("node1", sh("cat {f}/index.json", f=packed.folder)).stdout)
        sums = sh("cd {f} && sha256sum *.tar", f=packed.folder)
        assert cluster.run("node1", sums).stdout.split()[0] == index["shards"][0]["sha256"]
    finally:
        cluster.run("node0", sh("rm -rf /shared/raw {f}", f=f"{HOME}/raw"))


def test_what_is_missing_is_reported(cluster: Live, tmp_path: Path) -> None:
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.bench_data(cluster.spec, "nothing", seconds=0.5))
    assert caught.value.code is Code.NOT_FOUND
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.shard_data(cluster.spec, str(tmp_path / "gone")))
    assert caught.value.code is Code.NOT_FOUND
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.shard_data(cluster.spec, str(tmp_path), name="../x"))
    assert caught.value.code is Code.USAGE
    with pytest.raises(CorralError, match="no files"):
        asyncio.run(api.shard_data(cluster.spec, str(tmp_path), name="empty"))


def requirements(cluster: Live, folder: Path) -> str:
    """The package lmdb, of a folder of the cluster where it is for its nodes' Python."""
    asked = sh("python3 -c {ask}", ask="import sys; print('%d.%d' % sys.version_info[:2])")
    python = cluster.run("node1", asked).stdout.strip()
    options = ("--no-deps", "--only-binary=:all:", "--python-version", python, "-d", str(folder))
    words = [sys.executable, "-m", "pip", "download", "-q", *options, "lmdb"]
    if subprocess.run(words, check=False, capture_output=True, timeout=300).returncode:
        pytest.skip("no package index has lmdb for the nodes' Python")
    (file,) = folder.glob("*.whl")
    put = sh("mkdir -p /shared/lmdb && cat > /shared/lmdb/{name}", name=file.name)
    assert cluster.run(cluster.controller, put, stdin=file.read_bytes()).ok
    version = file.name.split("-")[1]
    return f"--no-index\n--find-links /shared/lmdb\nlmdb=={version}\n"


def test_ranks_share_a_database_on_their_node(cluster: Live, images: Path, tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    (project / "read.py").write_text(BY_NUMBER)
    (project / "requirements.txt").write_text(requirements(cluster, tmp_path / "wheels"))
    lines: list[RankLine] = []
    try:
        made = asyncio.run(
            api.shard_data(cluster.spec, str(images), name="numbered", size=16384, labels=True)
        )
        done = Cluster(cluster.spec).run(
            str(project / "read.py"),
            on_line=lines.append,
            args=(made.folder,),
            nodes=2,
            ranks_per_node=2,
        )
        assert done.good, lines
    finally:
        clean = sh("rm -rf /tmp/cache-samples /shared/lmdb {f}", f=f"{HOME}/numbered")
        for node in cluster.facts:
            cluster.run(node, clean)
    words = [line.text.split() for line in lines if line.rank is not None]
    got = sorted(word for line in words if line[0] == "got" for word in line[1:])
    assert got == sorted(
        f"{k}/{i:02d}={n}={1000 + i}" for n, k in enumerate(("cat", "dog")) for i in range(20)
    )
    files = [tuple(line[1:]) for line in words if line[0] == "file"]
    assert len(files) == 4
    assert len(set(files)) == len({node for node, _ in files}) == 2, "one database a node"
