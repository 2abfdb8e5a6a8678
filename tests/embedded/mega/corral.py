"""``corral up`` and ``corral down`` in a process that can be killed, over the simulated Google."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.embedded.mega.world import folder, read, step

from corral import api
from corral.apply.journal import Journal
from corral.errors import CorralError
from corral.events import Event, Kind
from corral.providers.gcp import provider, toolkit_run
from corral.providers.gcp.deployment import Making
from corral.spec.models import ClusterSpec

COUNTED = (
    (Journal, "write", "journal"),
    (Making, "_write", "blueprints"),
    (Making, "_mark", "marks"),
    (toolkit_run.Runs, "_record", "record of a run"),
)
"""What Corral writes on this machine."""
QUICK = (
    (provider, "NODES_S", 60.0),
    (provider.GcpProvider.__init__, "__defaults__", (None, 0.05)),
)


def counted(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function as two steps: before it and after it."""

    def wrapper(*args: Any, **more: Any) -> Any:
        step(f"corral: {name} begins")
        result = function(*args, **more)
        step(f"corral: {name} ends")
        return result

    return wrapper


def live(verbs: Sequence[str], file: Path) -> None:
    """Carry out some verbs, with all that is printed in ``output``; status 1 when one fails.

    ``world.VERB.json`` is what there is after a verb.
    """
    with (folder() / "output").open("a") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    (folder() / "corral.pid").write_text(str(os.getpid()))
    for owner, name, what in COUNTED:
        setattr(owner, name, counted(getattr(owner, name), what))
    for owner, name, value in QUICK:
        setattr(owner, name, value)
    try:
        for verb in verbs:
            asyncio.run(carry_out(verb, api.load(file)))
            (folder() / f"world.{verb}.json").write_text(json.dumps(read()))
    except CorralError as error:
        print(f"{error}\n{error.tail}\nhint: {error.hint}", flush=True)
        raise SystemExit(1) from error
    finally:
        (folder() / "corral.pid").unlink()


async def carry_out(verb: str, spec: ClusterSpec) -> None:
    if verb == "up":
        await api.up(spec, show)
        if not (await api.plan(spec)).empty:
            raise SystemExit("after up the plan is not empty")
    else:
        print("\n".join(await api.down(spec, show)), flush=True)


def show(event: Event) -> None:
    if event.kind is Kind.NOTE:
        print(event.message, flush=True)
