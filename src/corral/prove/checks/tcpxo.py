"""GPUDirect-TCPXO: nodes prepared by the prolog, and nccl-tests at its speed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from corral.hosts.quote import NOTHING, Script, call, join, sh
from corral.inspect.slurm import MPI
from corral.prove.check import ALL_CORES, Check
from corral.prove.context import (
    ProveContext,
    as_user,
    failed,
    left_out,
    output_of,
    skipped,
    verdict_of,
    warned,
)
from corral.prove.fabric.benchmark_log import Reading, read
from corral.prove.fabric.hardware import known_hardware, reference
from corral.prove.fabric.model import Collective
from corral.prove.fabric.verdict import SEVERAL
from corral.prove.launch import (
    Batch,
    batches,
    run_as_user,
    shown,
    srun,
)
from corral.prove.model import Evidence, Figure, Judgement
from corral.prove.probe import lines
from corral.prove.survey import survey
from corral.roles.machine.nccl_plugin import TCPXO
from corral.spec.providers import either, machines_on
from corral.spec.sections.provider_setup import section_of
from corral.spec.slurm.hostlist import expand

FABRIC: Final = "tcpxo"
MACHINES: Final = machines_on(FABRIC)
TITLES: Final = " and ".join(kind.title for kind in MACHINES.values())
VENDOR: Final = next(kind.vendor for kind in MACHINES.values())
NCCL_TESTS: Final = next(kind.nccl_tests for kind in MACHINES.values())
SIZE: Final = 8 << 30
"""Bytes of the largest all_gather, where the reference was measured."""
WARN_BELOW, FAIL_BELOW = SEVERAL
"""Shares of the healthy figure, as every measurement over several nodes is judged."""
MTU: Final = 8244
GPUS: Final = 8
PROGRAM: Final = "all_gather_perf"
RUN_S: Final = 1200.0
_LIMITS: Final = "-b 8M -e 8G -f 2 -g 1 -w 5 --iters 200"


async def prepared(ctx: ProveContext) -> Judgement:
    wide = await _wide(ctx)
    if not wide:
        return left_out(f"fewer than two usable {TITLES} nodes")
    problems: list[str] = []
    evidence: list[Evidence] = []
    for batch in wide:
        report = call("prove/node.sh", "task_rails", *TCPXO.rails)
        task = join([TCPXO.environment(), report])
        result = await run_as_user(ctx, srun(ctx, batch, task, suffix="-tcpxo"))
        problems += judge_nodes(batch.names, result.stdout, result.stderr)
        evidence.append(
            Evidence(ctx.controller, shown(batch, "TCPXO's environment"), output_of(result))
        )
    good = f"profile, environment and {len(TCPXO.rails)} NICs on {sum(len(b.nodes) for b in wide)}"
    return verdict_of(problems, f"{good} nodes", *evidence)


def judge_nodes(nodes: tuple[str, ...], text: str, errors: str) -> list[str]:
    """What is wrong on each node: nothing reported, NICs away or with small frames, environment."""
    rails: dict[str, dict[str, tuple[str, str]]] = {}
    env: dict[str, dict[str, str]] = {}
    for key, rest in lines(text):
        match (key, rest.split(maxsplit=1)):
            case ("rail", [node, words]):
                name, *more = words.split()
                rails.setdefault(node, {})[name] = (more[0], more[1]) if more[1:] else ("", "")
            case ("env", [node, pair]):
                name, _, value = pair.partition("=")
                env.setdefault(node, {})[name] = value
            case _:
                pass
    problems: list[str] = []
    for node in nodes:
        if node not in env:
            why = next(
                (line for line in errors.splitlines() if node in line and "corral:" in line),
                f"{node} reported nothing",
            )
            problems.append(why.removeprefix("corral: "))
            continue
        problems += [f"{node}: {sentence}" for sentence in TCPXO.mistakes(env[node])]
        problems += [f"{node}: {sentence}" for sentence in _rails(rails.get(node, {}))]
    return problems


def _rails(rails: Mapping[str, tuple[str, str]]) -> list[str]:
    wrong: list[str] = []
    for name in TCPXO.rails:
        mtu, state = rails.get(name, ("", ""))
        if not mtu:
            wrong.append(f"there is no NIC {name}")
        elif state == "down":
            wrong.append(f"{name} is down")
        elif int(mtu) < MTU:
            wrong.append(f"{name} has an MTU of {mtu} instead of {MTU}")
    return wrong


async def speed(ctx: ProveContext) -> Judgement:
    section = section_of(ctx.spec)
    tests = section.nccl() if section else None
    wide = await _wide(ctx)
    if tests is None:
        return skipped(f"{NCCL_TESTS} names no folder with nccl-tests")
    if not wide:
        return left_out(f"fewer than two usable {TITLES} nodes")
    folder, image = tests.folder, tests.image
    batch = wide[0]
    built = await ctx.control(as_user(ctx.person, _build(ctx, batch, folder, image)), timeout=RUN_S)
    if not built.ok:
        shown_by = Evidence(ctx.controller, f"make MPI=1 in {folder}", output_of(built))
        return failed("nccl-tests cannot be built", shown_by)
    listed = await ctx.control(as_user(ctx.person, MPI.shell))
    mpi = "pmix" if "pmix" in MPI.parse(listed.stdout) else "pmi2"
    run = _run(ctx, batch, folder, image, mpi)
    done = await ctx.control(as_user(ctx.person, run), timeout=RUN_S)
    command = shown(batch, f"{PROGRAM} {_LIMITS}", gpus=8)
    evidence = Evidence(ctx.controller, command, output_of(done))
    if not done.ok:
        return failed("nccl-tests failed", evidence)
    return judge_speed(read(done.stdout), done.stdout, evidence)


def healthy_speed() -> float:
    """GB/s of bus bandwidth that all_gather over two such nodes reaches (``hardware.yaml``)."""
    kinds = [known_hardware()[machine.hardware] for machine in MACHINES.values()]
    return next(seen.busbw for kind in kinds if (seen := reference(kind, Collective.ALL_GATHER, 2)))


def judge_speed(reading: Reading, log: str, evidence: Evidence) -> Judgement:
    """The table's largest size against the reference; FasTrak and all rails named by NCCL's log."""
    rows = [row for table in reading.tables for row in table.rows if row.size == SIZE]
    if not rows:
        return failed("the table does not reach 8 GiB", evidence)
    busbw = max(row.best for row in rows)
    healthy = healthy_speed()
    network = reading.transport.network
    fastrak = [line for line in log.splitlines() if "FasTrak" in line]
    named = [r for r in TCPXO.rails if any(re.search(rf"\b{r}\b", line) for line in fastrak)]
    figures: dict[str, Figure] = {
        "busbw GB/s": busbw,
        "reference GB/s": healthy,
        "network": network or "unknown",
        "rails": len(named),
    }
    measured = Evidence(evidence.node, evidence.command, evidence.output, figures)
    problems: list[str] = []
    if "FasTrak" not in network:
        problems.append(f"NCCL used {network or 'an unknown network'} instead of FasTrak (F45)")
    if named and len(named) < len(TCPXO.rails):
        missing = ", ".join(r for r in TCPXO.rails if r not in named)
        problems.append(f"{len(named)} of {len(TCPXO.rails)} NICs carried it; not {missing}")
    if busbw < FAIL_BELOW * healthy:
        problems.append(f"{busbw:.1f} GB/s at 8 GiB, {healthy:g} are reached")
    rails = f"{len(named)} NICs" if named else "its log names no NICs"
    good = f"{busbw:.1f} GB/s at 8 GiB by FasTrak ({rails}); reference {healthy:g}"
    if not problems and busbw < WARN_BELOW * healthy:
        return warned(good, measured)
    return verdict_of(problems, good, measured)


async def _wide(ctx: ProveContext) -> list[Batch]:
    """Partitions' free nodes on the fabric, where there are at least two together."""
    mine = {name for g in ctx.spec.groups if g.fabric == FABRIC for name in expand(g.nodes)}
    free = tuple(n for n in (await survey(ctx)).free if n.name in mine)
    return [b for b in batches(free, by_gpu=False) if b.nodes[1:]]


def _build(ctx: ProveContext, batch: Batch, folder: str, image: str | None) -> Script:
    """Make the benchmark where it is not there yet, in the image that has CUDA and MPI."""
    task = sh("cd {folder} && exec make MPI=1 CC=mpicc CXX=mpicxx -j 16 src.build", folder=folder)
    return sh(
        "[ -x {binary} ] && exit 0; srun -Q -J {name}-build -p {partition} -w {node} -N1 -n1 -t 20 "
        "--exclusive {container} sh -c {task} 2>&1",
        binary=f"{folder}/build/{PROGRAM}",
        name=ctx.job_name,
        partition=batch.partition,
        node=batch.names[0],
        container=_container(folder, image),
        task=str(task),
    )


def _run(ctx: ProveContext, batch: Batch, folder: str, image: str | None, mpi: str) -> Script:
    """Eight ranks on each of two nodes, as the vendor's guide runs it."""
    task = join(
        [
            TCPXO.environment(),
            sh(
                "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET; exec {binary} {limits}",
                binary=f"{folder}/build/{PROGRAM}",
                limits=Script(_LIMITS),
            ),
        ]
    )
    # A rank for each GPU; a rehearsal's nodes have fewer cores than that, real ones 208.
    ranks = min(GPUS, *(node.cores or 1 for node in batch.nodes))
    return sh(
        "srun -Q -J {name}-tcpxo -p {partition} -w {nodes} -N2 --ntasks-per-node={ranks} "
        "--gpus-per-node=8 --exclusive -t 20 --mpi={mpi} {container} sh -c {task} 2>&1",
        name=ctx.job_name,
        partition=batch.partition,
        nodes=",".join(batch.names[:2]),
        ranks=ranks,
        mpi=mpi,
        container=_container(folder, image),
        task=str(task),
    )


def _container(folder: str, image: str | None) -> Script:
    if image is None:
        return NOTHING
    mounts = (*TCPXO.mounts, f"{folder}:{folder}")
    return sh(
        "--container-image={image} --container-mounts={mounts}",
        image=image,
        mounts=",".join(mounts),
    )


def _on_fabric(ctx: ProveContext) -> str:
    there = any(group.fabric == FABRIC for group in ctx.spec.groups)
    return "" if there else f"no group is of machine type {either(tuple(MACHINES))}"


TCPXO_CHECKS: Final = (
    Check(
        id="multinode.tcpxo",
        title=f"{TITLES} nodes are ready for TCPXO",
        group="multinode",
        proves="In a job of several nodes each one has the plugin's profile, aperture devices, the "
        "right environment, and eight NICs up with large frames.",
        how="One srun; each node sources the environment that jobs get and prints it, with the "
        "state of its NICs.",
        breaks="The RxDM prolog not run or failed; no aperture devices; a NIC that is away or has "
        "another MTU.",
        hint="F45, F46, F60, F96 to F99: corral doctor; the prolog is linked for the partition in "
        "/opt/apps/adm/slurm on the controller",
        measure=prepared,
        applies=_on_fabric,
        needs=("smoke.launch",),
        cores=1,
    ),
    Check(
        id="multinode.tcpxo-speed",
        title="NCCL reaches TCPXO's speed",
        group="multinode",
        proves=f"all_gather over two nodes reaches {WARN_BELOW:.0%} of the speed of {VENDOR}'s own "
        f"run at 8 GiB (fails below {FAIL_BELOW:.0%}), NCCL names FasTrak, and no NIC is missing "
        "where its log names them.",
        how=f"Builds nccl-tests once in the folder {NCCL_TESTS}, runs it with eight ranks on each "
        "of two nodes, and reads its table and NCCL's log.",
        breaks="NCCL that fell back to TCP sockets; a NIC missing from NCCL_FASTRAK_IFNAME; a slow "
        "pair of nodes.",
        hint="the socket's speed is a tenth: the environment was not sourced (F45, F59); no fault "
        "and slow: another pair of nodes (corral bench run measures them)",
        measure=speed,
        applies=_on_fabric,
        needs=("multinode.tcpxo",),
        cores=ALL_CORES,
    ),
)
