"""Which clusters this machine knows: those it brought up and did not take down."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from corral.apply.journal import read_journal
from corral.errors import Code, CorralError
from corral.hosts.state_dir import cluster_dir, cluster_names
from corral.spec.models import ClusterSpec


def known_clusters() -> tuple[str, ...]:
    """Names of the clusters whose file was applied from here, sorted."""
    return tuple(name for name in cluster_names() if _recorded(name) is not None)


def spec_of(name: str) -> ClusterSpec:
    """The cluster file that was last applied under this name.

    Raises:
        CorralError: NOT_FOUND, none was; PARSE_FAILED, another Corral's record; USAGE, no name.
    """
    fields = _recorded(name)
    if fields is None:
        known = ", ".join(known_clusters())
        raise CorralError(
            Code.NOT_FOUND,
            f"no cluster called {name} was brought up from here",
            hint=f"known here: {known}" if known else "bring one up with: corral up FILE",
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


def looks_like_file(text: str) -> bool:
    """True for what can be no cluster's name, or is the name of a file here."""
    return "/" in text or text.endswith((".yaml", ".yml")) or Path(text).is_file()


def _recorded(name: str) -> object | None:
    found = None
    for record in read_journal(cluster_dir(name, create=False) / "journal.jsonl"):
        if record.get("kind") == "spec":
            found = record.get("spec")
    return found
