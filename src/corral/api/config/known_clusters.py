"""The clusters that this machine knows: applied from here, or logged in to."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from corral.api.config import profiles
from corral.apply.journal import read_journal
from corral.errors import Code, CorralError
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir, cluster_names


def is_path(text: str) -> bool:
    """True for an invalid cluster name, and for the name of a file here."""
    return "/" in text or text.endswith((".yaml", ".yml")) or Path(text).is_file()


def known_clusters() -> tuple[str, ...]:
    """Names of the clusters whose file was applied from here, sorted."""
    return tuple(name for name in cluster_names() if _recorded(name) is not None)


def spec_of(name: str) -> ClusterSpec:
    """The cluster file that was last applied under this name, else the cluster of a profile.

    Raises:
        CorralError: NOT_FOUND, no cluster and no profile has the name; PARSE_FAILED, another
            Corral's record or profile; USAGE, no name.
    """
    fields = _recorded(name)
    if fields is None:
        client = profiles.profile_spec(name)
        if client is not None:
            return client
        known = ", ".join((*known_clusters(), *profiles.profiles()))
        raise CorralError(
            Code.NOT_FOUND,
            f"no cluster called {name} was brought up from here, and no profile has that name",
            hint=f"known here: {known}"
            if known
            else "bring one up with: corral up FILE; or log in to one: corral login USER@HOST",
        )
    try:
        return ClusterSpec.model_validate(fields)
    except ValidationError as error:
        raise CorralError(
            Code.PARSE_FAILED,
            f"the recorded file of cluster {name} is not one of this Corral's",
            tail=str(error),
            hint="name the cluster file instead of the cluster's name",
        ) from error


def _recorded(name: str) -> object | None:
    spec = None
    path = cluster_dir(name, create=False) / "journal.jsonl"
    for record in read_journal(path, '"kind": "spec"'):
        if record.get("kind") == "spec":
            spec = record.get("spec")
    return spec
