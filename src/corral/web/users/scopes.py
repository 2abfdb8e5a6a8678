"""Which scope a bearer token needs for each operation of the page's API: one table.

An operation that is not in the table takes no bearer token, so that a new one is closed until
somebody decides. A test compares the table with the routes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from corral.api.page.token_store import Scope

_READ: Final = (
    "GET /api/openapi.json",
    "GET /api/me",
    "GET /api/cluster",
    "GET /api/summary",
    "GET /api/search",
    "GET /api/nodes",
    "GET /api/nodes/{name}",
    "GET /api/nodes/{name}/figures",
    "GET /api/figures",
    "GET /api/figures/history",
    "GET /api/events",
    "GET /api/places",
    "GET /api/past",
    "GET /api/timeline",
    "GET /api/mine",
    "GET /api/mine/gpus",
    "GET /api/mine/hours",
    "GET /api/mine/efficiency",
    "GET /api/policy/accounts",
    "GET /api/policy/limits",
    "GET /api/policy/qos",
    "GET /api/policy/reservations",
    "GET /api/policy/licenses",
    "GET /api/policy/scheduler",
    "GET /api/jobs",
    "GET /api/jobs/form",
    "GET /api/jobs/words",
    "GET /api/jobs/choices",
    "GET /api/jobs/environments",
    "GET /api/jobs/templates",
    "GET /api/jobs/{job_id}",
    "GET /api/jobs/{job_id}/tasks",
    "GET /api/jobs/{job_id}/figures",
    "GET /api/jobs/{job_id}/extras",
    "GET /api/jobs/{job_id}/profile",
    "GET /api/jobs/{job_id}/profile.json.gz",
    "GET /api/jobs/{job_id}/script",
    "GET /api/jobs/{job_id}/log",
    "GET /api/jobs/{job_id}/log/download",
    "GET /api/jobs/{job_id}/log/files",
    "GET /api/jobs/{job_id}/log/part",
    "GET /api/jobs/{job_id}/log/search",
    "GET /api/jobs/{job_id}/again",
    "GET /api/jobs/{job_id}/points",
    "GET /api/jobs/{job_id}/end",
    "GET /api/jobs/{job_id}/use",
    "POST /api/jobs/directives",
    "POST /api/jobs/preview",
    "POST /api/jobs/expected",
    "POST /api/bulk/jobs",
)
_SUBMIT: Final = (
    "POST /api/jobs",
    "POST /api/jobs/spec",
    "POST /api/jobs/{job_id}",
    "POST /api/bulk/jobs/cancel",
)
_ADMINISTER: Final = (
    "POST /api/nodes/{name}",
    "POST /api/nodes/{name}/health",
    "POST /api/bulk/nodes",
    "GET /api/policy/declared",
    "POST /api/policy/edit",
    "GET /api/corral/file",
    "POST /api/corral/lint",
    "POST /api/corral/plan",
    "POST /api/corral/doctor",
    "POST /api/corral/doctor/plan",
    "GET /api/corral/proof",
    "POST /api/corral/prove",
    "GET /api/corral/history",
    "GET /api/corral/work",
    "GET /api/corral/work/events",
    "GET /api/corral/reports",
    "GET /api/corral/reports/{name}",
    "GET /api/corral/cost",
)
SESSION_ONLY: Final = frozenset(
    {
        "GET /api/login",
        "POST /api/login",
        "POST /api/login/code",
        "POST /api/login/header",
        "POST /api/login/password",
        "GET /api/login/oidc",
        "GET /api/login/oidc/back",
        "POST /api/login/oidc/session",
        "POST /api/login/code/new",
        "POST /api/login/handover",
        "POST /api/logout",
        "POST /api/ticket",
        "GET /api/tokens",
        "POST /api/tokens",
        "DELETE /api/tokens/{identity}",
        "POST /api/corral/apply",
    }
)
"""What a bearer token is never for: a stolen one makes no other, and revokes none.

Machines change by the code that a person reads in the terminal, for the plan that this person has
seen: a program sees neither.
"""
_BY_SCOPE: Final[tuple[tuple[Scope, tuple[str, ...]], ...]] = (
    (Scope.READ, _READ),
    (Scope.SUBMIT, _SUBMIT),
    (Scope.ADMINISTER, _ADMINISTER),
)
NEEDED: Final[Mapping[str, Scope]] = MappingProxyType(
    {operation: scope for scope, operations in _BY_SCOPE for operation in operations}
)


def needed(method: str, path: str) -> Scope | None:
    """The scope of an operation; None: no bearer token is enough.

    Args:
        method: HTTP's.
        path: the route's, with the names of its parameters.
    """
    return NEEDED.get(f"{'GET' if method == 'HEAD' else method} {path}")
