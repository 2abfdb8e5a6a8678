"""``corral init``: a commented cluster file to start from, or the JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from corral import api
from corral.cli.options import JSON, examples, verb_app
from corral.cli.ui import Ui
from corral.errors import Code, CorralError, Exit

app = verb_app()
KIND = Annotated[
    str,
    typer.Argument(metavar="KIND", help="laptop (containers here) or lab (three machines by ssh)."),
]
KIND_OPTION = Annotated[
    str, typer.Option("--kind", metavar="KIND", help="The same as KIND.", show_default=False)
]
NAME = Annotated[
    str,
    typer.Option("--name", metavar="NAME", help="Name of the cluster.", show_default="the kind"),
]
VALUES = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="What to write instead of the template's own: nodes, gpu_type, gpu_count; "
        "for a lab also addresses, user, port, controller, gbps.",
    ),
]
OUTPUT = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FILE", help="Left out: stdout.", show_default=False),
]
FORCE = Annotated[bool, typer.Option("--force", help="Overwrite FILE when it is there.")]
SCHEMA = Annotated[
    bool, typer.Option("--schema", help="Print the JSON Schema of cluster files, for editors.")
]


@app.command(
    epilog=examples(
        "corral init -o laptop.yaml",
        "corral init lab --name rtx --set nodes='node[0-3]' --set user=admin -o rtx.yaml",
        "corral init --schema > corral.schema.json",
    )
)
def init(
    kind: KIND = "laptop",
    *,
    kind_option: KIND_OPTION = "",
    name: NAME = "",
    values: VALUES = None,
    output: OUTPUT = "",
    force: FORCE = False,
    schema: SCHEMA = False,
    as_json: JSON = False,
) -> int:
    """Write a commented cluster file to start from.

    The file is complete and good as it is. A file that is there already is never overwritten
    without --force.
    """
    ui = Ui(as_json=as_json)
    kind = kind_option or kind
    if schema:
        text = f"{json.dumps(api.schema(), indent=2)}\n"
    else:
        text = api.starting_file(kind, **_values(values or [], name))
    if not output:
        if as_json:
            ui.json({"schema": api.schema()} if schema else {"kind": kind, "text": text})
        else:
            typer.echo(text, nl=False)
        return Exit.GOOD
    _write(Path(output), text, force=force)
    ui.json({"file": output})
    ui.show(f"wrote {output}", *([] if schema else [f"next: corral plan {output}"]))
    return Exit.GOOD


def _values(pairs: list[str], name: str) -> dict[str, str | int | float]:
    found: dict[str, str | int | float] = {"name": name} if name else {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise CorralError(
                Code.USAGE, f"--set {pair}: no value", hint="write it as --set nodes='node[0-3]'"
            )
        found[key] = _number(value)
    return found


def _number(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise CorralError(
            Code.USAGE,
            f"{path} is there already",
            hint="name another file, or overwrite it with --force",
        ) from error
    except OSError as error:
        raise CorralError(
            Code.USAGE, f"{path} cannot be written: {error.strerror}", hint="name another file"
        ) from error
