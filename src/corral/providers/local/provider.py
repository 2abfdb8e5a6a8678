"""Provider local: the machine that Corral runs on is the cluster's one node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from corral.errors import Code, CorralError
from corral.events import Emit
from corral.hosts.target import SshTarget
from corral.inspect.facts import Facts
from corral.providers.base import Machine, MachineAction, Observed, Traits
from corral.providers.local.gpus import check_gpus
from corral.spec.models import ClusterSpec
from corral.spec.nodes import Node, nodes_of

SLURM_CONF: Final = Path("/etc/slurm/slurm.conf")


class LocalProvider:
    """The node of a group with ``provider: local``.

    Args:
        spec: the cluster file.
    """

    name: ClassVar[str] = "local"
    owned: ClassVar[bool] = True

    def __init__(self, spec: ClusterSpec) -> None:
        self._nodes = {n.name: n for n in nodes_of(spec) if n.group.provider == self.name}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The declared node."""
        return tuple(self._nodes.values())

    async def read_machines(self) -> Observed:
        """The machine is there. Before Slurm is set up, its GPUs are checked.

        Later a GPU that is in use is a job's.
        """
        machines = {
            n: Machine(n, exists=True, running=True, address=self.address(n)) for n in self._nodes
        }
        refusal: CorralError | None = None
        if any(n.group.gpu_kinds for n in self.nodes) and not SLURM_CONF.exists():
            try:
                await check_gpus()
            except CorralError as error:
                refusal = error
        return Observed(machines, refusal=refusal)

    def plan(self, observed: Observed) -> tuple[MachineAction, ...]:
        """Nothing: the machine runs."""
        return ()

    async def prepare(self, emit: Emit) -> None:
        """Nothing to prepare."""

    async def apply(self, actions: Sequence[MachineAction], emit: Emit) -> None:
        """Nothing to do.

        Raises:
            CorralError: PROVIDER_FAILED, it was given an action.
        """
        if actions:
            raise CorralError(
                Code.PROVIDER_FAILED,
                f"Corral cannot {actions[0].action} the machine it runs on",
                node=actions[0].node,
            )

    def address(self, node: str) -> str:
        """The declared one. Not loopback's: Slurm and NCCL would take it for all (F06)."""
        return self._nodes[node].address or node

    def ssh_target(self, node: str) -> SshTarget:
        """Raise: this machine is reached without ssh.

        Raises:
            CorralError: USAGE.
        """
        raise CorralError(
            Code.USAGE,
            "the cluster is this machine, which Corral does not reach by ssh",
            node=node,
            hint="run the command here without corral; other machines: provider ssh",
        )

    def predict(self, node: str) -> Facts:
        """Raise: the machine is read, not predicted.

        Raises:
            CorralError: UNREACHABLE.
        """
        raise CorralError(Code.UNREACHABLE, "this machine does not answer itself", node=node)

    def traits(self, node: str) -> Traits:
        """Nothing beyond the facts."""
        return Traits()

    async def destroy(self, emit: Emit) -> tuple[str, ...]:
        """Nothing: the machine is the user's."""
        return ()

    async def leftovers(self) -> list[str]:
        return []
