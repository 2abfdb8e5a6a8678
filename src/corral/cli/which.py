"""Which cluster a verb is about: a file, a name, or the only one there is."""

from __future__ import annotations

from pathlib import Path

from corral import api
from corral.cli.ui import Ui
from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec


def from_file(ui: Ui, file: str, *, rehearse: bool = False) -> ClusterSpec:
    """The cluster that a file declares, or its rehearsal; the notes on that go to stderr.

    Raises:
        SpecInvalidError: the file has errors or is not there.
    """
    spec = api.load(Path(file))
    if not rehearse:
        return spec
    mapped, notes = api.rehearsal(spec)
    for note in notes:
        ui.note(f"rehearsal: {note}", "dim")
    return mapped


def cluster(ui: Ui, *wanted: str, rehearse: bool = False) -> ClusterSpec:
    """The cluster that is meant.

    Args:
        ui: for the notes of a rehearsal.
        wanted: a file or a name, the first that is not "" counts; none: the only known cluster.
        rehearse: the rehearsal of a file's cluster.

    Raises:
        CorralError: NOT_FOUND, there is no such file or name; USAGE, it must be said which.
    """
    chosen = next(filter(None, wanted), "")
    if chosen and api.looks_like_file(chosen):
        return from_file(ui, chosen, rehearse=rehearse)
    if rehearse:
        raise CorralError(
            Code.USAGE, "--rehearse needs the cluster file", hint="name the file, not the cluster"
        )
    if chosen:
        return api.spec_of(chosen)
    known = api.known_clusters()
    if len(known) == 1:
        return api.spec_of(known[0])
    if not known:
        raise CorralError(
            Code.USAGE,
            "no cluster was brought up from here",
            hint="bring one up with: corral up FILE; or say which with: -c FILE",
        )
    raise CorralError(
        Code.USAGE,
        f"it is not clear which cluster is meant: {', '.join(known)}",
        hint="say which with -c NAME, or set CORRAL_CLUSTER",
    )
