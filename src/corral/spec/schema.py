"""The JSON Schema of the cluster file, for editors."""

from __future__ import annotations

from typing import Any

from corral.spec.models import ClusterSpec


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the cluster file.

    Each field carries its meaning (``description``) and what a change of it does to a live cluster
    (``x-impact``). What spans several fields only ``load`` can check.
    """
    schema = ClusterSpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
