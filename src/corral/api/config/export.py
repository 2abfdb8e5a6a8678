"""A cluster file written out for other people's tools."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.api.output import write_folder
from corral.errors import Code, CorralError
from corral.providers.autoinstall import Install, autoinstall_files, boot_parameters, reservations
from corral.providers.export_files import Export
from corral.slurm import topology
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of, partitions_of
from corral.spec.providers import READER, TOOLS, part_of
from corral.spec.slurm.hostlist import fold

_MEDIUM: Final = ("-as", "genisoimage", "-V", "CIDATA", "-J", "-r")
"""A medium of cloud-init's source NoCloud, known by its label."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes:
        folder: where.
        files: names of the files, in the order to read them.
        next: commands that use them, one a line.
        left: what the cluster file declares and the files cannot express, with why.
    """

    folder: str
    files: tuple[str, ...]
    next: tuple[str, ...]
    left: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Folder, files, next steps, and what is not carried over."""
        return {
            "folder": self.folder,
            "files": list(self.files),
            "next": list(self.next),
            "not_carried_over": list(self.left),
        }


def _verb_of(function: Callable[..., Exported]) -> str:
    """``export_VERB`` writes the files of the tool VERB, which a provider's folder declares."""
    return function.__name__.removeprefix("export_")


@dataclass(frozen=True, slots=True)
class Fabric:
    """Switches as text for the cluster file, and what is odd about links of its nodes."""

    text: str
    odd: tuple[str, ...]


def export_gcluster(spec: ClusterSpec, folder: Path, *, overwrite: bool = False) -> Exported:
    """Write the files of the tool that sets the provider's machines up, as ``export_tool``.

    Args:
        spec: a cluster whose provider it sets up.
        folder: where; made when it is not there.
        overwrite: replace files that are there.

    Raises:
        CorralError: SPEC_INVALID, that tool does not make the cluster; USAGE, a file is there
            already; FAILED to write.
    """
    return export_tool(_verb_of(export_gcluster), spec, folder, overwrite=overwrite)


def export_ansible(spec: ClusterSpec, folder: Path, *, overwrite: bool = False) -> Exported:
    """Write an Ansible inventory and its variables, as ``export_tool``.

    Args:
        spec: a cluster of machines that are there already.
        folder: where, as that tool's folder config/; made when it is not there.
        overwrite: replace files that are there.

    Raises:
        CorralError: SPEC_INVALID, another provider; USAGE, a file is there already.
    """
    return export_tool(_verb_of(export_ansible), spec, folder, overwrite=overwrite)


def export_tool(verb: str, spec: ClusterSpec, folder: Path, *, overwrite: bool = False) -> Exported:
    """Write the files of a tool that sets up a provider's machines.

    Args:
        verb: of ``corral export``.
        spec: a cluster of that provider.
        folder: where; made when it is not there.
        overwrite: replace files that are there.

    Raises:
        CorralError: SPEC_INVALID, another provider; USAGE, no such tool, or a file is there
            already; FAILED to write.
    """
    if verb not in TOOLS:
        raise CorralError(Code.USAGE, f"no tool {verb!r}", hint=f"there is {', '.join(TOOLS)}")
    made: Export = part_of(TOOLS[verb].writes)(spec, str(folder))
    write(made.files, folder, overwrite=overwrite)
    return Exported(str(folder), tuple(made.files), made.next, made.left)


def export_autoinstall(
    spec: ClusterSpec, folder: Path, install: Install, *, overwrite: bool = False
) -> Exported:
    """Write answers for an unattended installation of each machine.

    Args:
        spec: a cluster of your own machines, whose login user is not root.
        folder: where; made when it is not there.
        install: what the cluster file does not state.
        overwrite: replace files that are there.

    Raises:
        CorralError: SPEC_INVALID, another provider or login as root; USAGE, a value, or a file is
            there already.
    """
    files = autoinstall_files(spec, install)
    write(files, folder, overwrite=overwrite, mode=0o600)
    lines = [f"reserve {row} at the DHCP server" for row in reservations(spec, install)]
    if install.system == "ubuntu":
        lines += [
            shlex.join(("xorriso", *_MEDIUM, "-o", f"{folder / name}.iso", str(folder / name)))
            for name in dict.fromkeys(str(Path(file).parent) for file in files)
        ]
        lines.append("# boot the server ISO with autoinstall on the kernel's command line")
    else:
        served = ("python3", "-m", "http.server", "8000", "--directory", str(folder))
        lines.append(shlex.join(served))
        lines.append(
            "# boot the installer with: auto=true priority=critical url=http://HERE:8000/NODE.cfg"
        )
        for node, words in boot_parameters(spec, install).items():
            lines.append(f"# {node}, where no DHCP server answers, also with: {words}")
    return Exported(str(folder), tuple(files), tuple(lines))


def read_inventory(folder: Path) -> tuple[str, tuple[str, ...]]:
    """A cluster file made from the folder of another tool.

    Returns:
        its text, and what could not be carried over.

    Raises:
        CorralError: NOT_FOUND, no inventory with nodes; PARSE_FAILED.
    """
    return part_of(READER.reads)(folder)


def read_deepops(folder: Path) -> tuple[str, tuple[str, ...]]:
    """As ``read_inventory``, from that tool's folder config/.

    Returns:
        its text, and what could not be carried over.

    Raises:
        CorralError: NOT_FOUND, no inventory with nodes; PARSE_FAILED.
    """
    return read_inventory(folder)


def fabric_of(spec: ClusterSpec, listing: str, *, plugin: str = "tree") -> Fabric:
    """Switches for the cluster file, from what ``ibnetdiscover`` printed.

    Args:
        spec: the cluster; its compute nodes are searched for in the listing.
        listing: the tool's output.
        plugin: tree or block.

    Raises:
        CorralError: PARSE_FAILED; NOT_GOOD, a node is not on the fabric.
    """
    jobs = {g for p in partitions_of(spec) for g in p.groups}
    nodes = [n.name for n in nodes_of(spec) if n.group.name in jobs]
    read = topology.parse(listing)
    switches = topology.tree(read, nodes)
    if plugin == "block":
        switches = topology.blocks(switches)
    lines = ["network:", "  topology:", f"    plugin: {plugin}", "    switches:"]
    for switch in switches:
        what = (
            f'nodes: "{fold(switch.nodes)}"'
            if switch.nodes
            else f"switches: [{', '.join(switch.switches)}]"
        )
        lines.append(f"      - {{name: {switch.name}, {what}}}")
    return Fabric("\n".join(lines) + "\n", topology.complaints(read, nodes))


def write(
    files: Mapping[str, str], folder: Path, *, overwrite: bool, mode: int | None = None
) -> None:
    """Write files into a folder, all or none where one of them is there already.

    Raises:
        CorralError: USAGE.
    """
    try:
        taken = [name for name in files if (folder / name).exists()]
        if taken and not overwrite:
            raise CorralError(
                Code.USAGE,
                f"{folder} holds {', '.join(taken)} already",
                hint="name another folder, or --overwrite",
            )
        write_folder(folder, {name: text.encode() for name, text in files.items()}, mode=mode)
    except OSError as error:
        raise CorralError(
            Code.USAGE, f"{folder} cannot be written: {error.strerror}", hint="name another folder"
        ) from error
