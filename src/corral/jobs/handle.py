"""What a submitted job is called, and where its files are."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from corral.errors import Code, CorralError
from corral.slurm.array_tasks import task_ref


@dataclass(frozen=True, slots=True)
class JobHandle:
    """A submitted job, or one part of an array.

    Attributes:
        id: Slurm's number for it.
        name: its name.
        user: who it runs as.
        folder: its own folder on shared storage: script, batch script, logs; "" for a job that
            Corral did not submit.
        logs: number of rank logs.
        controller: the node that is asked about it.
        array: numbers of its parts, empty for a job that is not an array.
        task: which part of an array it is, None for an entire job.
    """

    id: int
    name: str
    user: str
    folder: str
    logs: int
    controller: str
    array: tuple[int, ...] = ()
    task: int | None = None

    @property
    def ref(self) -> str:
        """What Slurm calls it: ``12``, or ``12_3`` for a part of an array."""
        return task_ref(self.id, self.task)

    def part(self, task: int) -> JobHandle:
        """The handle of one part of an array.

        Raises:
            CorralError: NOT_FOUND, it has no such part.
        """
        if task not in self.array:
            raise CorralError(
                Code.NOT_FOUND,
                f"job {self.id} has no part {task}",
                hint=f"it has {len(self.array)}: corral logs {self.id} lists them"
                if self.array
                else "it is not an array",
            )
        folder = f"{self.folder}/task-{task}"
        return replace(self, folder=folder, array=(), task=task)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"array": list(self.array)}
