"""Following a job on the command line, from its submission to its end or to Ctrl-C."""

from __future__ import annotations

from corral import api
from corral.api.workload.batch import ArrayOutcome, JobHandle, JobOutcome, JobSpec
from corral.cli.terminal.ui import InterruptedByUserError, Ui
from corral.cli.workload.joblive import Screen
from corral.cli.workload.jobview import end_line, parts_view
from corral.cli.workload.profile import show_profile
from corral.errors import CorralError, Exit
from corral.spec.models import ClusterSpec


class Following:
    """One job that is run and followed.

    Args:
        ui: where to.
        spec: the cluster.
        job: the job.
    """

    def __init__(self, ui: Ui, spec: ClusterSpec, job: JobSpec) -> None:
        self._ui = ui
        self._spec = spec
        self._job = job
        self._handle: JobHandle | None = None
        self._screen = Screen(ui, several=job.logs > 1)

    def to_its_end(self) -> int:
        """Follow it; returns the exit status."""
        try:
            with self._screen as screen:
                outcome = self._ui.run(
                    lambda emit: api.run(
                        self._spec,
                        self._job,
                        screen.emit(emit),
                        on_line=screen.line,
                        on_submit=self._submitted,
                        on_live=screen.live,
                    ),
                    lines_only=True,
                )
        except InterruptedByUserError as error:
            raise self._interrupted() from error
        show_end(self._ui, outcome, self._screen)
        self._show_profile()
        return Exit.GOOD if outcome.good else Exit.NOT_GOOD

    def _show_profile(self) -> None:
        """What it recorded; a job that failed before has reported it already."""
        handle = self._handle
        if self._job.profile == "none" or handle is None or handle.array:
            return
        try:
            show_profile(self._ui, self._spec, str(handle.id))
        except CorralError as error:
            self._ui.note(f"no profile: {error.message}")

    def _submitted(self, handle: JobHandle) -> None:
        self._handle = handle
        self._ui.json({"event": "submitted", **handle.as_dict()})
        parts = f", {len(handle.array)} parts" if handle.array else ""
        self._screen.note(f"job {handle.id}: submitted{parts}; Ctrl-C leaves it running")

    def _interrupted(self) -> InterruptedByUserError:
        handle = self._handle
        if handle is None:
            return InterruptedByUserError(
                "the job was not submitted, or only just", again="corral jobs"
            )
        ask = f"Cancel job {handle.id}? Else it goes on without you."
        if self._ui.interactive and self._ui.confirm(ask, state=f"job {handle.id} goes on"):
            self._ui.quietly(lambda: api.cancel(self._spec, (handle.id,)))
            return InterruptedByUserError(
                f"job {handle.id} is cancelled", again="corral jobs --all"
            )
        return InterruptedByUserError(
            f"job {handle.id} goes on; `corral cancel {handle.id}` ends it",
            again=f"corral logs {handle.id} --follow",
        )


def show_end(ui: Ui, outcome: JobOutcome | ArrayOutcome, screen: Screen) -> None:
    """Report a job's state: as JSON, or for people."""
    if isinstance(outcome, ArrayOutcome):
        ui.json({"event": "ended" if outcome.ended else "state", **outcome.as_dict()})
        ui.show(parts_view(outcome))
        words = ", ".join(f"{count} {word}" for word, count in sorted(outcome.counts.items()))
        if not ui.as_json:
            ui.note(f"job {outcome.id}: {words}")
        return
    ui.json({"event": "ended" if outcome.state.ended else "state", **outcome.as_dict()})
    if not ui.as_json:
        for line in end_line(outcome, tail=screen.buried(outcome)):
            ui.err.print(line, soft_wrap=True)
