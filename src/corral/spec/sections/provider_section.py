"""A provider's own section of the cluster file: what every such section has. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from corral.spec.values import Kind, Model


@dataclass(frozen=True, slots=True)
class NcclTests:
    """Where nccl-tests is on the machines.

    Attributes:
        folder: its source, on shared storage.
        image: the container image it is built and run in; None: the nodes themselves.
    """

    folder: str
    image: str | None = None


class Section(Model):
    """A provider's own section of the cluster file, under its name."""

    meaning: ClassVar[str]
    """What the section is for, in the reference."""

    kinds: ClassVar[tuple[Kind, ...]] = ()
    """Kinds of text that no other part of the file has."""

    def removal(self, nodes: str, cluster: str) -> str:
        """What happens to a cluster that the provider set up when it is removed, one sentence.

        Args:
            nodes: its nodes, as a hostlist.
            cluster: its name.
        """
        return f"Removes {nodes} of cluster {cluster} and all that is on them."

    def nccl(self) -> NcclTests | None:
        """Where nccl-tests is, None where the file does not state it."""
        return None
