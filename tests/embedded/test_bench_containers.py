"""Collectives and trainings inside containers, and what the doctor reports where containers fail.

Needs CORRAL_TEST_ENROOT and CORRAL_TEST_PYXIS, as test_containers.py does. The image is the node's
own Python and PyTorch, whose version shows that it is the image's.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.test_containers import software

from corral import api
from corral.api.evidence.collective_bench import BenchRequest
from corral.api.workload.queue import RankLine
from corral.errors import CorralError
from corral.hosts.quote import sh
from corral.prove.context import as_user
from corral.prove.fabric.benchmark_log import OWN
from corral.spec.models import ClusterSpec

pytestmark = pytest.mark.slow
MIB = 1 << 20
IMAGE = "/shared/corral-torch.sqsh"
EMPTY = "/shared/corral-empty.sqsh"
EXAMPLES = Path(__file__).parents[2] / "examples" / "containers"
DIGITS, TEXT = "/shared/digits.csv.gz", "/shared/text"
PROGRAMS = Path(__file__).parent / "programs"
TABLE = Path(__file__).parents[1] / "recorded" / "nccl" / "dgx1-all-reduce.txt"
VERSION = "usr/lib/python3/dist-packages/torch/version.py"

MAKE = sh(
    "set -e; cd /; f=/var/tmp/corral-image; mkdir -p $f/opt/nccl-tests $f/empty/bin;"
    " printf %s {program} >$f/opt/nccl-tests/all_reduce_perf;"
    " chmod 755 $f/opt/nccl-tests/all_reduce_perf; printf %s {table} >$f/opt/nccl-tests/table.txt;"
    " mksquashfs bin sbin lib lib64 etc usr $f/opt {image} -keep-as-directory -noappend -quiet"
    " -no-progress -no-xattrs -noI -noD -noF -noX -wildcards"
    " -p {changed} -p 'tmp d 1777 0 0' -p 'proc d 755 0 0' -p 'sys d 755 0 0' -p 'dev d 755 0 0'"
    " -p 'run d 755 0 0' -p 'var d 755 0 0' -p 'root d 700 0 0'"
    # All that follows -e is a name (mksquashfs 4.6).
    " -e {version} 'usr/share/doc/*' 'usr/share/man/*' 'usr/share/locale/*' 'etc/slurm/*'"
    " 'etc/munge/*' 'etc/ssh/*' 'usr/lib/python3/dist-packages/sklearn/*' >&2;"
    " mksquashfs $f/empty {empty} -noappend -quiet -no-progress >&2; chmod 644 {image} {empty};"
    " rm -rf $f",
    program=(PROGRAMS / "all_reduce_perf").read_text(),
    table=TABLE.read_text(),
    image=IMAGE,
    empty=EMPTY,
    version=VERSION,
    changed=f"{VERSION} f 644 0 0 sed \"s/^__version__.*/__version__='of-the-image'/\" /{VERSION}",
)


# The image has no scikit-learn: the digits are shared storage's.
DATA = sh(
    "set -e; mkdir -p {text}; cat /usr/lib/python3*/[a-d]*.py >{text}/library.txt;"
    " cp $(find /usr/lib/python3/dist-packages/sklearn -name digits.csv.gz) {digits};"
    " chmod -R a+rX {text} {digits}",
    text=TEXT,
    digits=DIGITS,
)


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Live:
    """A cluster for this file; CORRAL_TEST_CONTAINERS=NAME makes it by that name and keeps it."""
    existing = os.environ.get("CORRAL_TEST_CONTAINERS", "")
    spec = named(existing or f"ctb-{os.getpid()}", software=software())
    if existing:
        asyncio.run(api.up(spec))
        live = Live(spec, {})
    else:
        bring_up: Callable[[ClusterSpec], Live] = request.getfixturevalue("fresh_cluster")
        live = bring_up(spec)
    if not live.run(live.controller, sh("test -e {i}", i=IMAGE)).ok:
        made = live.run(live.controller, MAKE, timeout=400)
        assert made.ok, made.tail
    return live


def test_the_own_benchmark_runs_with_the_images_pytorch(lab: Live) -> None:
    bench_request = BenchRequest(
        ("all_reduce",), nodes=2, smallest=MIB, largest=MIB, container=IMAGE
    )
    benched = asyncio.run(api.run_bench(lab.spec, bench_request))
    ((table, _),) = benched.benchmark.tables
    assert (table.ranks, table.nodes, table.wrong) == (2, 2, 0)
    lines: list[str] = []
    asyncio.run(api.logs(lab.spec, benched.job, on_line=lambda line: lines.append(line.text)))
    (own_line,) = [line for line in lines if OWN in line]
    assert '"torch of-the-image gloo"' in own_line


@pytest.mark.parametrize(
    ("name", "data", "figure"), [("resnet", DIGITS, "accuracy"), ("bert", TEXT, "test_loss")]
)
def test_an_example_learns_in_a_container_over_two_nodes(
    lab: Live, name: str, data: str, figure: str
) -> None:
    made = lab.run(lab.controller, DATA, timeout=60)
    assert made.ok, made.tail
    job = api.job_spec(
        {
            "script": str(EXAMPLES / f"train_{name}.py"),
            "folder": str(EXAMPLES),
            "nodes": 2,
            "container": IMAGE,
            "args": ["--data", data],
        }
    )
    lines: list[RankLine] = []
    outcome = asyncio.run(api.run(lab.spec, job, on_line=lines.append))
    printed = [line.text for line in lines]
    assert outcome.good, printed[-20:]
    result = json.loads(next(t for t in printed if t.startswith("RESULT ")).partition(" ")[2])
    print(result)
    assert (result["model"], result["world_size"]) == (name, 2)
    assert result["torch"] == "of-the-image"
    assert result[figure] > 0.9 if name == "resnet" else result[figure] < result["guess_loss"]


def test_nccl_tests_is_the_images(lab: Live) -> None:
    bench_request = BenchRequest(
        ("all_reduce",), nodes=2, nccl_tests="/opt/nccl-tests", container=IMAGE
    )
    benched = asyncio.run(api.run_bench(lab.spec, bench_request, api.Known(hardware="dgx1")))
    ((_, verdict),) = benched.benchmark.tables
    assert verdict.busbw == 54.06
    with pytest.raises(CorralError):  # the machines have none
        asyncio.run(
            api.run_bench(
                lab.spec, BenchRequest(("all_reduce",), nodes=2, nccl_tests="/opt/nccl-tests")
            )
        )


def test_an_image_without_a_shell_is_reported(lab: Live) -> None:
    bench_request = BenchRequest(
        ("all_reduce",), nodes=2, smallest=MIB, largest=MIB, container=EMPTY
    )
    with pytest.raises(CorralError) as caught:
        asyncio.run(api.run_bench(lab.spec, bench_request))
    assert "no such file" in caught.value.tail.lower()


def in_a_container(lab: Live, mem: str) -> tuple[bool, list[str], str]:
    """Whether a job of so much memory enters the image on node1; what the doctor reads; its end."""
    words = sh("srun -Q -p main -t 3 -w node1 --mem={m} --container-image={i} true", m=mem, i=IMAGE)
    done = lab.run(lab.controller, as_user("corral", words), timeout=200)
    findings = api.doctor_log(f"{done.stdout}\n{done.stderr}").findings
    return done.ok, [f.failure.id for f in findings], done.tail


def test_folders_that_enroot_cannot_make_are_named(lab: Live) -> None:
    """Its runtime folder below /run, where nobody makes it, as pyxis issue 12 has it."""
    conf = "/etc/enroot/enroot.conf.d/10-test.conf"  # what is set first stays (enroot 4.1.2)
    broken = "echo ENROOT_RUNTIME_PATH /run/enroot-test/x >{f}"
    try:
        assert lab.run("node1", sh(broken, f=conf)).ok
        ok, failures, tail = in_a_container(lab, "2G")
    finally:
        lab.run("node1", sh("rm -f {f}", f=conf))
    assert not ok
    assert failures == ["F21"], tail


def test_unpacking_in_too_little_memory_is_named(lab: Live) -> None:
    ok, failures, tail = in_a_container(lab, "100M")
    assert not ok
    assert failures == ["F103"], tail
