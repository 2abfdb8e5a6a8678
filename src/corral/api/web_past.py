"""Use cases of the page that read what this machine remembers: journal, last proof, file texts."""

from __future__ import annotations

from collections import deque
from io import StringIO
from typing import Any, Final

from ruamel.yaml import YAML

from corral.apply.journal import read_journal
from corral.events import Kind
from corral.hosts.state_dir import cluster_dir
from corral.spec.findings import Finding
from corral.spec.load import load_text
from corral.spec.models import ClusterSpec

_TOLD: Final = frozenset(
    kind.value
    for kind in (Kind.STAGE_DONE, Kind.STAGE_FAILED, Kind.CHANGE_DONE, Kind.NODE_FAILED, Kind.NOTE)
)


def lint_text(text: str, file: str) -> tuple[ClusterSpec | None, tuple[Finding, ...]]:
    """What is wrong with a cluster file's text; and the cluster, where nothing is."""
    loaded = load_text(text, file)
    return loaded.spec, loaded.findings


def spec_text(spec: ClusterSpec) -> str:
    """A cluster as the text of a cluster file, without what is as it would be anyway."""
    data = spec.model_dump(mode="json", exclude_defaults=True)
    stream = StringIO()
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump({"corral": "v1", **data}, stream)  # pyright: ignore[reportUnknownMemberType]
    return stream.getvalue()


def last_proof(cluster: str) -> dict[str, Any] | None:
    """The last proof in the cluster's journal, as ``Proof.as_dict`` wrote it."""
    found: dict[str, Any] | None = None
    for record in read_journal(cluster_dir(cluster, create=False) / "journal.jsonl"):
        if record.get("kind") == "proof":
            found = record.get("proof")
    return found


def history(cluster: str, limit: int = 500) -> tuple[dict[str, Any], ...]:
    """What was done to the cluster, newest first: plans, changes, failures, proofs.

    Args:
        cluster: its name.
        limit: records at most.
    """
    kept: deque[dict[str, Any]] = deque(maxlen=limit)
    for record in read_journal(cluster_dir(cluster, create=False) / "journal.jsonl"):
        told = _told(record)
        if told:
            kept.append({"at": record.get("at"), "run": record.get("run"), **told})
    return tuple(reversed(kept))


def _told(record: dict[str, Any]) -> dict[str, Any] | None:
    kind = record.get("kind")
    if kind == "plan":
        stages = record.get("plan", {}).get("stages", [])
        changes = sum(len(stage.get("changes", [])) for stage in stages)
        return {"what": "plan", "text": f"plan with {changes} changes in {len(stages)} stages"}
    if kind == "proof":
        results = record.get("proof", {}).get("results", [])
        failed = sum(result.get("verdict") == "fail" for result in results)
        words = f"{failed} failed" if failed else "good"
        return {"what": "proof", "text": f"proof of {len(results)} checks: {words}"}
    event = record.get("event", {})
    if kind == "event" and event.get("kind") in _TOLD:
        text = event.get("message") or event.get("subject", "")
        return {"what": event["kind"], "text": text, "node": event.get("node", "")}
    return None
