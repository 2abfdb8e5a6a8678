"""The environment a rank needs on its fabric, read on its own node: one text for job and --explain.

Each value is given by the shell function ``corral_give NAME VALUE REASON``: in a job it sets what
the user has not set, for ``corral run --explain`` it also prints what it did. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, filled, join, piece, sh, shipped
from corral.roles.machine.nccl_plugin import PLUGINS, TCPXO, NcclPlugin, of_fabrics
from corral.spec.models import ClusterSpec, NodeGroup, Partition
from corral.spec.providers import machines_on
from corral.spec.slurm.hostlist import expand, fold

YOURS: Final = "yours, by --env or the job file"


@dataclass(frozen=True, slots=True)
class Rdma:
    """What the cluster file declares about its RDMA network, beyond what nodes show themselves.

    Attributes:
        pkey: the partition's key as in sysfs (0x8001), "" for the default one.
        gid_index: of RoCE's GID tables, "" to take RoCE v2 over IPv4.
        given: each group's name, its nodes and its own NCCL settings, NAME=VALUE.
    """

    pkey: str = ""
    gid_index: str = ""
    given: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()


SettingRow = tuple[str, str, str]
DEFAULT: Final = Rdma()
"""Nothing is declared."""


def rdma_of(spec: ClusterSpec) -> Rdma:
    """As the cluster file has it."""
    data = spec.network.data
    given = tuple((g.name, tuple(expand(g.nodes)), g.nccl) for g in spec.groups if g.nccl)
    if data is None:
        return Rdma(given=given)
    gid = "" if data.gid_index is None else str(data.gid_index)
    return Rdma(data.pkey or "", gid, given)


def settings(
    *,
    interface: str,
    fabric: str,
    threads: int | Script,
    rdma: Rdma = DEFAULT,
    sys: str = "/sys",
    folder: str = "",
    several: bool = True,
    report: bool = False,
    write: bool = False,
    printed: bool = False,
) -> Script:
    """Shell that sets the environment of a rank; MASTER_ADDR must be set before.

    Args:
        interface: the declared data network's interface, "" for none.
        fabric: the declared kind: infiniband, roce, ethernet, one of ``PLUGINS``, or "" for none.
        threads: CPUs of a rank.
        rdma: what is declared of an RDMA network.
        sys: where sysfs is.
        folder: where the fabric's plugin is, "" for its own place.
        several: the job has more than one node; one alone needs no plugin.
        report: report each value and its reason in a line for ``setting_rows``.
        write: write the values into the job's folder, for ranks in a container.
        printed: print the values as shell, for a script that evaluates them.
    """
    plugin = PLUGINS.get(fabric)
    # Nodes of an undeclared kind may have been set up for TCPXO by somebody else.
    profile = "" if plugin else f"{folder or TCPXO.folder}/{TCPXO.profile}"
    kept = "give-printed.sh" if printed else "give.sh"
    give = shipped(f"jobs/batch/{'give-written.sh' if write else kept}")
    return join(
        [
            filled("jobs/batch/give-reported.sh", yours=YOURS) if report else give,
            *(_of_group(*row) for row in rdma.given),
            *([_plugin(fabric, plugin, folder, report=report)] if plugin and several else []),
            filled(
                "jobs/batch/fabric-declared.sh",
                interface=interface,
                fabric=fabric,
                threads=threads,
                sys=sys,
                profile=profile,
                pkey=rdma.pkey,
                gid=rdma.gid_index,
            ),
            shipped("jobs/fabric.sh"),
        ]
    )


def _of_group(group: str, nodes: tuple[str, ...], given: tuple[str, ...]) -> Script:
    pairs = [pair.partition("=") for pair in given]
    why = f"groups[].nccl of {group} in the cluster file"
    return filled(
        "jobs/batch/group-settings.sh",
        nodes=join([sh("{name}", name=name) for name in nodes], "|"),
        gives=join([sh("  corral_give {n} {v} {why}", n=n, v=v, why=why) for n, _, v in pairs]),
    )


def _plugin(fabric: str, plugin: NcclPlugin, folder: str, *, report: bool) -> Script:
    titles = " and ".join(kind.title for kind in machines_on(fabric).values())
    return filled(
        "jobs/batch/plugin-settings.sh",
        environment=str(join([plugin.environment(folder), sh("env")])),
        absent=filled("jobs/batch/plugin-absent-reported.sh", title=plugin.title)
        if report
        else filled("jobs/batch/plugin-absent.sh"),
        why=f"{plugin.title} on {titles}: the node's profile and its NICs",
    )


_HEAD: Final = """\
# Environment of jobs on nodes of group {group}, cluster {cluster}. Written by corral env: write it
# again when the cluster file changes. In a batch script, before srun:  . FILE
"""


def sourced(spec: ClusterSpec, group: NodeGroup, *, sys: str = "/sys", folder: str = "") -> Script:
    """A file that batch scripts of plain sbatch source: what ranks of ``corral run`` get.

    Args:
        spec: the cluster.
        group: whose nodes the jobs run on.
        sys: where sysfs is.
        folder: where the fabric's plugin is, "" for its own place.
    """
    head = sh(_HEAD, group=group.name, cluster=spec.name)
    plugin, data = PLUGINS.get(group.fabric), spec.network.data
    made = settings(
        interface=(data.interface or "") if data and not plugin else "",
        fabric=group.fabric or (data.fabric if data else ""),
        threads=sh('"${{SLURM_CPUS_PER_TASK:-1}}"'),
        rdma=rdma_of(spec.model_copy(update={"groups": (group,)})),
        sys=sys,
        folder=folder,
        several=False,
        printed=True,
    )
    text = piece("jobs/batch/sourced.sh", address=shipped("node-address.sh"), settings=made)
    if plugin is None:
        return join([head, text], "")
    # Here and not by corral_give: a library path of the script is kept behind the plugin's.
    given = [sh("export {pair}", pair=pair) for pair in group.nccl]
    body = piece(
        "jobs/batch/sourced-plugin.sh",
        environment=plugin.environment(folder),
        given=join(given or [sh(":")]),
        sourced=text,
        mounts=",".join(plugin.mounts),
    )
    return join([head, body], "")


def exports(env: Mapping[str, str]) -> Script:
    """Statements that set an environment."""
    return join(sh("export {name}={value}", name=k, value=v) for k, v in sorted(env.items()))


def explain_script(first: str, env: Mapping[str, str], setup: Script) -> Script:
    """What a node reports about its environment for a job whose first node is at ``first``."""
    return filled("jobs/batch/explained.sh", first=first, env=exports(env), settings=setup)


def declared(spec: ClusterSpec, partition: Partition | None) -> tuple[str, str]:
    """Interface and kind of the data network as the cluster file has them; "" for what it has not.

    Nodes of a type of machine that comes with a fabric are on it whatever else is declared.
    """
    data = spec.network.data
    groups = partition.groups if partition else ()
    fabric = of_fabrics([group.fabric for group in spec.groups if group.name in groups])
    if fabric:
        return "", fabric
    return ((data.interface or ""), data.fabric) if data else ("", "")


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of the environment.

    Attributes:
        name: the variable.
        value: its value.
        reason: where it comes from.
        nodes: nodes it is so on, as a hostlist.
    """

    name: str
    value: str
    reason: str
    nodes: str

    def as_dict(self) -> dict[str, str]:
        return {"name": self.name, "value": self.value, "from": self.reason, "nodes": self.nodes}


def merged_settings(answers: Mapping[str, Sequence[SettingRow]]) -> tuple[Setting, ...]:
    """Settings from the rows of each node; nodes that agree share one."""
    where: dict[SettingRow, list[str]] = {}
    for node, rows_of_node in answers.items():
        for row in rows_of_node:
            where.setdefault(row, []).append(node)
    order = {name: at for at, (name, _, _) in reversed(list(enumerate(where)))}
    rows = sorted(where.items(), key=lambda pair: order[pair[0][0]])
    return tuple(Setting(*row, fold(nodes)) for row, nodes in rows)


def setting_rows(text: str) -> tuple[SettingRow, ...]:
    """Name, value and reason of each setting that ``explain_script`` printed on a node."""
    rows = (line.split("\t") for line in text.splitlines())
    return tuple((row[0], row[1], row[2]) for row in rows if len(row) == 3)  # noqa: PLR2004
