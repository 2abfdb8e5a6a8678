"""Use cases of the page that read what this machine remembers: journal, last proof, file texts."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from io import StringIO
from typing import Any, Final

from ruamel.yaml import YAML

from corral.api.evidence.collective_bench import bench_history
from corral.api.evidence.past_proofs import proofs
from corral.api.evidence.report_pages import proof_page
from corral.api.rental.costs import judge
from corral.apply.journal import read_journal
from corral.events import Kind
from corral.prove.figures import chart_from
from corral.prove.model import CheckResult, Evidence, Proof, Verdict
from corral.providers.cloud.budget import Spend
from corral.providers.cloud.ledger import Ledger
from corral.spec.findings import Finding
from corral.spec.load import load_text
from corral.spec.models import ClusterSpec
from corral.state_dir import cluster_dir

_VERDICTS: Final = {"pass": Verdict.PASS, "warn": Verdict.WARN, "fail": Verdict.FAIL}
_SHOWN: Final = frozenset(
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
    proof: dict[str, Any] | None = None
    path = cluster_dir(cluster, create=False) / "journal.jsonl"
    for record in read_journal(path, '"kind": "proof"'):
        if record.get("kind") == "proof":
            proof = record.get("proof")
    return proof


def reports(cluster: str) -> tuple[dict[str, Any], ...]:
    """What can be shown as a page, newest first: proofs and measurements that were kept.

    Returns:
        For each its id, when (unix seconds), what, whether it is good, and how many plots it has.
    """
    pages = [
        {
            "id": kept.id,
            "at": kept.proof.at,
            "what": "proof" if kept.by == "prove" else _measured(kept.proof, kept.by),
            "good": kept.proof.good,
            "plots": sum(len(e.charts) for r in kept.proof.results for e in r.evidence),
        }
        for kept in proofs(cluster)
    ]
    pages += [
        {
            "id": f"bench-{record['job']}",
            "at": record["at"],
            "what": "collectives",
            "good": all(table["outcome"] != "fail" for table in record["tables"]),
            "plots": len(record["charts"]),
        }
        for record in bench_history(cluster)
        if isinstance(record.get("charts"), list)
    ]
    return tuple(sorted(pages, key=lambda page: -float(page["at"])))


def _measured(proof: Proof, by: str) -> str:
    return proof.results[0].title.lower() if by == "bench" and proof.results else by


def report_page(cluster: str, name: str) -> str:
    """One of ``reports`` as its page, with its plots; "" for one that there is not."""
    for kept in proofs(cluster):
        if kept.id == name:
            return proof_page(kept.proof)
    for record in bench_history(cluster):
        if name == f"bench-{record.get('job')}" and isinstance(record.get("charts"), list):
            return proof_page(_as_proof(cluster, record))
    return ""


def _as_proof(cluster: str, record: Mapping[str, Any]) -> Proof:
    """A measurement of collectives as a proof: a check for each, all plots with the first."""
    charts = tuple(chart_from(chart) for chart in record["charts"])
    results: list[CheckResult] = []
    for index, table in enumerate(record["tables"]):
        words = [f"{table['busbw_gb_s']:.4g} GB/s", *table["reasons"]]
        output = "\n".join(str(reason) for reason in table["reasons"])
        seen = Evidence(
            "",
            f"job {record['job']} on {record['nodes']}",
            output,
            charts=charts if not index else (),
        )
        verdict = _VERDICTS.get(str(table["outcome"]), Verdict.SKIP)
        name = str(table["collective"] or "collective")
        results.append(
            CheckResult(
                f"collectives.{name}",
                name,
                "collectives",
                verdict,
                "; ".join(words),
                evidence=(seen,),
            )
        )
    return Proof(cluster, float(record["at"]), tuple(results))


def spend_now(cluster: str) -> Spend:
    """What a cluster's rented machines cost an hour, and have cost."""
    ledger = Ledger(cluster)
    rentals = tuple(ledger.rentals().values())
    return judge(cluster, rentals, (), {}, ledger.now(), limits=(None, None), silent="").now


def history(cluster: str, limit: int = 500) -> tuple[dict[str, Any], ...]:
    """What was done to the cluster, newest first, and by whom: plans, changes, failures, proofs.

    Args:
        cluster: its name.
        limit: records at most.
    """
    kept: deque[dict[str, Any]] = deque(maxlen=limit)
    for record in read_journal(cluster_dir(cluster, create=False) / "journal.jsonl"):
        entry = _entry(record)
        if entry:
            stamp = {key: record.get(key, "") for key in ("at", "run", "by")}
            kept.append({**stamp, **entry})
    return tuple(reversed(kept))


def _entry(record: dict[str, Any]) -> dict[str, Any] | None:
    kind = record.get("kind")
    if kind == "plan":
        stages = record.get("plan", {}).get("stages", [])
        changes = [entry for stage in stages for entry in stage.get("changes", [])]
        text = f"plan with {len(changes)} changes in {len(stages)} stages"
        return {"what": "plan", "text": text, "changes": [_change(change) for change in changes]}
    if kind == "proof":
        results = record.get("proof", {}).get("results", [])
        failed = sum(result.get("verdict") == "fail" for result in results)
        words = f"{failed} failed" if failed else "good"
        return {"what": "proof", "text": f"proof of {len(results)} checks: {words}"}
    event = record.get("event", {})
    if kind == "event" and event.get("kind") in _SHOWN:
        text = event.get("message") or event.get("subject", "")
        return {"what": event["kind"], "text": text, "node": event.get("node", "")}
    return None


def _change(entry: dict[str, Any]) -> str:
    summary = entry.get("change", {}).get("summary", "")
    return f"{', '.join(entry.get('nodes', []))}: {summary}"
