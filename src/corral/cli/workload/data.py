"""``corral data``: data sets on shared storage, and folders copied between nodes."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from corral import api
from corral.api.workload.data import Fed
from corral.cli.cluster_choice import cluster
from corral.cli.evidence.bench_run import bytes_of
from corral.cli.options import CLUSTER, JSON, USER, examples, verb_app
from corral.cli.terminal.text import duration, right, size, table
from corral.cli.terminal.ui import Ui
from corral.errors import Exit
from corral.plurals import plural

app = verb_app()
SOURCE = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="NODE",
        help="Node to copy from. Default: the controller.",
        show_default=False,
    ),
]


MEGA: Final = 1e6


@app.callback(
    epilog=examples("corral data shard images --labels", "corral data bench images --per-gpu 800")
)
def data() -> None:
    """Make data sets, and see whether storage feeds the GPUs."""


@app.command(
    epilog=examples(
        "corral data shard images",
        "corral data shard images --labels --size 256M",
        "corral data shard /shared/raw/images --name images",
    )
)
def shard(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER",
            help="A folder of this machine, or one on the cluster's shared storage.",
            show_default=False,
        ),
    ],
    name: Annotated[
        str,
        typer.Option(
            "--name", help="Name of the data set. Default: the folder's.", show_default=False
        ),
    ] = "",
    size: Annotated[str, typer.Option(metavar="SIZE", help="Size of each shard, about.")] = "128M",
    *,
    labels: Annotated[
        bool,
        typer.Option("--labels", help="Folders are classes: each sample gets its number as cls."),
    ] = False,
    user: USER = "",
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Make WebDataset shards of a folder: tar files that are read in a row, with an index.

    Files that share a name up to the first dot are one sample: 0001.png and 0001.cls. Each shard
    is written completely or not at all and has its SHA-256 in index.json; when it is stopped, the
    same command goes on. Unchanged files are not sent again.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named, administers=False, by_ssh="data")
    data_set = ui.run(
        lambda emit: api.shard_data(
            spec, folder, emit, name=name, size=bytes_of(size), labels=labels, user=user
        ),
        state="the shards that are complete stay; the same command continues",
    )
    ui.json(data_set.as_dict())
    ui.show(
        f"{data_set.folder}: {data_set.samples} samples in {data_set.shards} shards, "
        f"{data_set.bytes / MEGA:.1f} MB, {data_set.new} of them new",
        f"next: corral data bench {data_set.folder}",
    )
    return Exit.GOOD


@app.command(
    epilog=examples(
        "corral data bench images",
        "corral data bench /shared/data/images --per-gpu 800 --seconds 20",
    )
)
def bench(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FOLDER",
            help="A data set by its name, or its folder on the cluster.",
            show_default=False,
        ),
    ],
    *,
    per_gpu: Annotated[
        float,
        typer.Option(
            min=0, metavar="N", help="Samples a second that each GPU consumes; 0: unknown."
        ),
    ] = 0.0,
    seconds: Annotated[
        float, typer.Option(min=0.5, max=600, help="Seconds of each measurement.")
    ] = 10.0,
    user: USER = "",
    named: CLUSTER = "",
    as_json: JSON = False,
) -> int:
    """Measure whether the storage feeds the GPUs: each node reads shards alone, then all at once.

    What a node has in memory of a shard is dropped before it is read. It does not go through Slurm:
    jobs that run meanwhile slow it down. With --per-gpu the exit status is 1 when a node starves.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, named, administers=False, by_ssh="data")
    rates = ui.run(
        lambda emit: api.bench_data(
            spec, folder, emit, seconds=seconds, per_gpu=per_gpu, user=user
        ),
        state="nothing was changed",
    )
    ui.json(rates.as_dict())
    ui.show(*_view(rates))
    return Exit.NOT_GOOD if rates.starving else Exit.GOOD


def _view(rates: Fed) -> list[RenderableType]:
    about = rates.as_dict()
    rows = [
        (
            row["node"],
            f"{row['alone_mb_s']:.1f}",
            f"{row['alone_samples_s']:.0f}",
            f"{row['together_mb_s']:.1f}",
            f"{row['together_samples_s']:.0f}",
            f"{row['needs_samples_s']:.0f}" if row["needs_samples_s"] else "-",
        )
        for row in about["nodes"]
    ]
    head = right("node", "alone:MB/s", "alone:samples/s", "all:MB/s", "all:samples/s", "needs")
    total, samples = about["total_mb_s"], about["total_samples_s"]
    end = Text(f"all nodes together: {total:.1f} MB/s, {samples:.0f} samples/s")
    if rates.starving:
        end.append(f"; too slow for {', '.join(rates.starving)}", "red")
        end.append(": keep shards on the nodes' own disks (CORRAL_DATA_CACHE)")
    elif rates.needs:
        end.append("; the storage feeds all GPUs", "green")
    return [table(head, rows), end]


@app.command(
    "sync",
    epilog=examples(
        "corral data sync /data/digits -c rented",
        "corral data sync /data/digits -c rented --from desk --to pod[0-3] --delete",
    ),
)
def sync(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER", help="Folder on the source; it has the same path on the others."
        ),
    ],
    named: CLUSTER = "",
    source: SOURCE = "",
    nodes: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="NODES",
            help="Nodes to copy to. Default: all others.",
            show_default=False,
        ),
    ] = "",
    *,
    delete: Annotated[
        bool,
        typer.Option(
            "--delete", help="Delete files at the destination that the source does not have."
        ),
    ] = False,
    as_json: JSON = False,
) -> int:
    """Copy a folder of one node to others, over the control network.

    For nodes that share no storage, or over links too thin for it. rsync sends only what differs,
    over ssh, with a key that is made for this run and ends with it. After an interruption, the same
    command resumes.
    """
    ui = Ui(as_json=as_json)
    spec = cluster(ui, "", named)
    done = ui.run(
        lambda emit: api.sync_data(spec, folder, emit, source=source, nodes=nodes, delete=delete),
        state="files that were copied stay; run it again",
    )
    good = all(copy.error is None for copy in done)
    ui.json({"good": good, "nodes": [copy.as_dict() for copy in done]})
    rows = [
        (
            copy.node,
            plural(copy.files, "file"),
            size(copy.bytes),
            duration(copy.seconds),
            copy.error.message if copy.error else "",
        )
        for copy in done
    ]
    ui.show(table(("node", *right("sent", "size", "took"), "failed"), rows))
    for copy in done:
        if copy.error:
            ui.note(f"{copy.error}. hint: {copy.error.hint}", "bold red")
    return Exit.GOOD if good else Exit.FAILED
