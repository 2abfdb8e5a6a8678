"""What Corral knows beyond Slurm: the report with its plots, cost, places, the doctor's plan."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from corral import api
from corral.errors import Code, CorralError
from corral.report.page import policy
from corral.spec.models import ClusterSpec
from corral.spec.sections.racks import slots_of, units_of
from corral.spec.slurm.hostlist import expand
from corral.web import schemas
from corral.web.routes.owner import begin_plan
from corral.web.state import Changer, Here, Owner, Viewer, poller_of, shared_by

router = APIRouter(prefix="/api", tags=["report"])

# The report is a separate document with its own style and scripts, which run in a sandbox without
# the page's origin: docs/guide/proof-report.md.
ReportName = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9-]+$")]
REPORT_HEADERS: Final = {
    "content-security-policy": f"{policy()}; frame-ancestors 'self'; "
    "sandbox allow-popups allow-scripts",
    "x-frame-options": "SAMEORIGIN",
    # A sandboxed page may not ask for an opener policy: browsers refuse to show it alone.
    "cross-origin-opener-policy": "unsafe-none",
}


@router.get("/corral/reports", response_model=schemas.Reports)
async def reports(owner: Owner) -> Any:
    """Proofs and measurements that can be shown as pages, newest first."""
    return {"reports": await asyncio.to_thread(api.reports, owner[1].name)}


@router.get("/corral/reports/{name}", response_class=HTMLResponse)
async def report(name: ReportName, owner: Owner) -> HTMLResponse:
    """One as its page: verdicts, plots against limit and reference, evidence."""
    text = await asyncio.to_thread(api.report_page, owner[1].name, name)
    if not text:
        raise CorralError(
            Code.NOT_FOUND, f"no report {name} was kept here", hint="prove or measure again"
        )
    return HTMLResponse(text, headers=REPORT_HEADERS)


@router.get("/corral/cost", response_model=schemas.Cost)
async def cost(owner: Owner) -> Any:
    """What the rented machines cost in dollars: an hour, and since the first launch."""
    if not any(group.cloud for group in owner[1].groups):
        return {"rented": False}
    now = await asyncio.to_thread(api.spend_now, owner[1].name)
    return {"rented": True, **asdict(now), "rate": now.rate(), "spent": now.spent()}


@router.get("/places", response_model=schemas.Places)
async def places(request: Request, session: Viewer, state: Here) -> Any:
    """Where nodes are, as the cluster file declares it: the rack of each, else its switch.

    Where Slurm hides nodes from users, only those that the viewer sees.
    """
    if state.spec is None:
        return {"racks": {}, "elevations": []}
    racks, elevations = await asyncio.to_thread(_places, state.spec)
    if shared_by(state, session):
        now = await poller_of(request, session).fresh(jobs=False)
        racks = {name: rack for name, rack in racks.items() if name in now.nodes}
        for rack in elevations:
            rack["nodes"] = [slot for slot in rack["nodes"] if slot[0] in now.nodes]
    return {"racks": racks, "elevations": elevations}


def _places(spec: ClusterSpec) -> tuple[dict[str, str], list[schemas.RackElevation]]:
    """The rack or switch of each node, and the racks with their nodes."""
    topology = spec.network.topology
    switches = topology.switches if topology else ()
    racks = {
        node: switch.name for switch in switches if switch.nodes for node in expand(switch.nodes)
    }
    elevations: dict[str, schemas.RackElevation] = {
        name: {"name": name, "row": "", "units": units, "nodes": []}
        for name, units in units_of(spec.racks).items()
    }
    for line in spec.racks:
        rack = elevations[line.name]
        rack["row"] = rack["row"] or line.row or ""
        for slot in slots_of(line, expand(line.nodes)):
            rack["nodes"].append((slot.node, slot.unit, slot.height, slot.column, slot.across))
            racks[slot.node] = line.name
    return racks, list(elevations.values())


@router.post("/corral/doctor/plan", response_model=schemas.StartedWork)
async def fix_plan(request: Request, owner: Owner, session: Changer) -> Any:
    """The plan that fixes what the doctor can fix: the cluster file as it is declared.

    It is shown, and applied only with the terminal's code, as any plan.
    """
    return begin_plan(request, owner[1], session)
