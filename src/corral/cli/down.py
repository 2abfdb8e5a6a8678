"""``corral down``: remove all that Corral made for a cluster."""

from __future__ import annotations

from corral import api
from corral.cli.options import CLUSTER, JSON, REHEARSE, TARGET, YES, examples, verb_app
from corral.cli.ui import Ui
from corral.cli.which import cluster
from corral.errors import Code, CorralError, Exit
from corral.spec.nodes import fold, nodes_of

app = verb_app()


@app.command(epilog=examples("corral down laptop.yaml", "corral down -c lab-rehearsal --yes"))
def down(
    target: TARGET = "",
    wanted: CLUSTER = "",
    yes: YES = False,
    rehearse: REHEARSE = False,
    as_json: JSON = False,
) -> int:
    """Remove all that Corral made for a cluster.

    Machines that a provider made are removed with all that is on them: jobs, users' files,
    accounting. Machines of provider ssh are yours and stay as they are. Says what is gone.
    """
    ui = Ui(as_json=as_json)
    if not (target or wanted):
        # The only known cluster is a good guess for reading it, and none for removing it.
        raise CorralError(
            Code.USAGE,
            "it is not said which cluster to remove",
            hint=f"name it: corral down FILE, or one of: {', '.join(api.known_clusters()) or '-'}",
        )
    spec = cluster(ui, target, wanted, rehearse=rehearse)
    made = [node.name for node in nodes_of(spec) if node.group.provider != "ssh"]
    if made:
        what = f"Removes {fold(made)} of cluster {spec.name} and all that is on them. Do it?"
    else:
        what = f"Forgets cluster {spec.name}; its machines stay as they are. Do it?"
    if not yes and not ui.ask(what):
        ui.json({"cluster": spec.name, "removed": []})
        ui.note("nothing was removed")
        return Exit.NOT_GOOD
    gone = ui.run(lambda emit: api.down(spec, emit), state="part of it may be removed already")
    ui.json({"cluster": spec.name, "removed": list(gone)})
    ui.show(*(f"removed {thing}" for thing in gone))
    ui.show(
        f"{spec.name}: nothing is left" if gone else f"{spec.name}: there was nothing to remove"
    )
    return Exit.GOOD
