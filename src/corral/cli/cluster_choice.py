"""Which cluster a verb is about: a file, a name, or the only one there is; for all verbs here."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from corral import api
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError
from corral.spec.client import ClientSpec, by_rest, require_root
from corral.spec.models import ClusterSpec

DEFAULT: Final = "cluster.yaml"
"""The cluster file of the current folder, where none is given."""


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


def cluster(
    ui: Ui, *named: str, rehearse: bool = False, administers: bool = True, by_ssh: str = ""
) -> ClusterSpec:
    """The cluster that is meant, by name as it was last applied.

    Args:
        ui: for the notes of a rehearsal.
        named: a file or a name, the first that is not "" counts; none: ``cluster.yaml`` of this
            folder, else the only known cluster or profile.
        rehearse: the rehearsal of a file's cluster.
        administers: the verb needs root on the machines; False: a profile will do.
        by_ssh: the verb, where it needs ssh.

    Raises:
        CorralError: NOT_FOUND, the file does not exist or the name is unknown; USAGE, more than
            one fits; FORBIDDEN, a profile has no root, or no ssh.
    """
    chosen = _chosen(named)
    if api.is_path(chosen):
        try:
            return from_file(ui, chosen, rehearse=rehearse)
        except CorralError as error:
            if error.code is not Code.NOT_FOUND or "did you mean" in error.hint:
                raise
            # A new file would not be the cluster that is meant.
            known = ", ".join((*api.known_clusters(), *api.profiles()))
            raise CorralError(
                error.code,
                error.message,
                hint=f"name a cluster known here: {known}"
                if known
                else "name the cluster's file; no cluster was brought up from here",
            ) from error
    if rehearse:
        raise CorralError(
            Code.USAGE, "--rehearse needs the cluster file", hint="name the file, not the cluster"
        )
    spec = api.spec_of(chosen)
    if administers:
        require_root(spec)
    if by_ssh and by_rest(spec):
        from corral.cli.rest_verbs import refuse_without_ssh  # noqa: PLC0415  # a table

        refuse_without_ssh(spec, by_ssh)
    return spec


def declared(ui: Ui, *named: str, rehearse: bool = False, administers: bool = True) -> ClusterSpec:
    """The cluster that a file declares now, for verbs that compare the file with the machines.

    By name it is the file that was last applied under it, read again: what was changed in it since
    is what the verb is called for.

    Raises:
        CorralError: as ``cluster``; NOT_FOUND also where that file is gone.
    """
    chosen = _chosen(named)
    if api.is_path(chosen):
        return from_file(ui, chosen, rehearse=rehearse)
    origin = api.origin_of(chosen)
    if origin is None:
        spec = cluster(ui, chosen, rehearse=rehearse, administers=administers)
        if isinstance(spec, ClientSpec):
            return spec
        ui.note(f"cluster {chosen}: as it was last applied; its file is not known here", "dim")
        return spec
    ui.note(f"cluster file: {origin.file}" + (" (rehearsal)" if origin.rehearsal else ""), "dim")
    spec = from_file(ui, origin.file, rehearse=rehearse or origin.rehearsal)
    if spec.name != chosen:
        raise CorralError(
            Code.USAGE,
            f"{origin.file} declares cluster {spec.name} now, and not {chosen}",
            hint="name the file that is meant",
        )
    return spec


def file_of(*named: str) -> str:
    """The cluster file that is meant, "" where it is not known here.

    By name it is the one that was last applied under it; a rehearsal's file declares others.
    """
    chosen = _chosen(named)
    if api.is_path(chosen):
        return chosen
    origin = api.origin_of(chosen)
    return "" if origin is None or origin.rehearsal else origin.file


def remember(spec: ClusterSpec, *named: str, rehearse: bool = False) -> None:
    """Keep which file a cluster is applied from, for the next command that names none."""
    chosen = next(filter(None, named), "") or (DEFAULT if Path(DEFAULT).is_file() else "")
    if chosen and api.is_path(chosen):
        api.keep_origin(spec, Path(chosen), rehearsal=rehearse)


def again(*named: str, rehearse: bool = False) -> str:
    """The words after a verb that name the same cluster once more, a space before each."""
    chosen = next(filter(None, named), "")
    return (f" {shlex.quote(chosen)}" if chosen else "") + (" --rehearse" if rehearse else "")


def _chosen(named: tuple[str, ...]) -> str:
    chosen = next(filter(None, named), "")
    if chosen:
        return chosen
    if Path(DEFAULT).is_file():
        return DEFAULT
    known = (*api.known_clusters(), *api.profiles())
    if len(known) == 1:
        return known[0]
    if not known:
        raise CorralError(
            Code.USAGE,
            f"no cluster was brought up from here, and there is no {DEFAULT} in this folder",
            hint="name the cluster file: corral up FILE, or -c FILE; to use a cluster of somebody "
            "else's: corral login USER@HOST",
        )
    raise CorralError(
        Code.USAGE,
        f"it is not clear which cluster is meant: {', '.join(known)}",
        hint="choose one with -c NAME, or set CORRAL_CLUSTER",
    )
