"""``corral init``: a cluster file to start from, from machines, or from others' files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from corral import api
from corral.api.config.cluster_draft import Draft
from corral.api.output import check_folder, write_output
from corral.cli.options import JSON, examples, verb_app
from corral.cli.terminal.files import STDOUT
from corral.cli.terminal.ui import Ui
from corral.errors import Code, CorralError, Exit
from corral.spec.providers import READER

EXISTING = Annotated[
    list[str] | None,
    typer.Option(
        "--existing",
        metavar="PATH",
        help="Make it from a slurm.conf that is there: a folder such as /etc/slurm, or files "
        "(/etc/hosts gives addresses). What cannot be carried over is in comments.",
        show_default=False,
    ),
]


def text_of(paths: list[str]) -> tuple[str, list[str]]:
    """The cluster file's text, and what is still wrong with it, one line each."""
    text, findings = api.adopt(paths)
    return text, [str(finding) for finding in findings]


app = verb_app()
WORDS = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KIND",
        help="laptop (containers here) or lab (three machines by ssh); with --from more addresses.",
        show_default="laptop",
    ),
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
        help="Value to write instead of the template's: nodes, gpu_type, gpu_count; "
        "for a lab also addresses, user, port, controller, gbps.",
    ),
]
OUTPUT = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="File to write; - is stdout. Default: -.",
        show_default=False,
    ),
]
FROM = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="ADDR...",
        help="Ask these machines what they are and write the result; the first one becomes the "
        "controller.",
        show_default=False,
    ),
]
HERE = Annotated[
    bool,
    typer.Option(
        "--here",
        help="Read what this machine is and write a file for a cluster of it alone: Slurm directly "
        "on it, without containers and ssh.",
    ),
]
USER = Annotated[
    str,
    typer.Option(
        "--user",
        metavar="USER",
        help="With --from: user who logs in.",
        show_default="your ssh config's",
    ),
]
PORT = Annotated[int, typer.Option("--port", metavar="PORT", help="With --from: port of sshd.")]
KEY = Annotated[
    str,
    typer.Option(
        "--key", metavar="FILE", help="With --from: private key.", show_default="ssh's own choice"
    ),
]
JUMP = Annotated[
    str,
    typer.Option(
        "--jump", metavar="HOST", help="With --from: go through this machine.", show_default=False
    ),
]
INSTALL = Annotated[
    bool,
    typer.Option(
        "--keys", help="With --from: install a key first; asks for the login password once."
    ),
]
INVENTORY = Annotated[
    str,
    typer.Option(
        READER.option,
        metavar="FOLDER",
        help=READER.help,
        show_default=False,
    ),
]
FORCE = Annotated[bool, typer.Option("--force", help="Overwrite FILE when it is there.")]
SCHEMA = Annotated[
    bool, typer.Option("--schema", help="Print the JSON Schema of cluster files, for editors.")
]


@app.command(
    epilog=examples(
        "corral init -o laptop.yaml",
        "corral init lab --name rtx --set nodes='node[0-3]' --set user=admin -o rtx.yaml",
        "corral init --existing /etc/slurm --existing /etc/hosts -o lab.yaml",
        READER.example,
        "corral init --from 192.168.1.10 192.168.1.11 192.168.1.12 --user alice",
        "corral init --from '192.168.1.[10-12]' --keys -o rtx.yaml",
        "sudo corral init --here",
        "corral init --schema > corral.schema.json",
    )
)
def init(
    words: WORDS = None,
    *,
    machines: FROM = None,
    here: HERE = False,
    user: USER = "",
    port: PORT = 22,
    key: KEY = "",
    jump: JUMP = "",
    install_key: INSTALL = False,
    kind_option: KIND_OPTION = "",
    name: NAME = "",
    values: VALUES = None,
    output: OUTPUT = "",
    force: FORCE = False,
    schema: SCHEMA = False,
    existing: EXISTING = None,
    inventory: INVENTORY = "",
    as_json: JSON = False,
) -> int:
    """Write a commented cluster file to start from.

    The file is complete and good as it is. A file that is there already is never overwritten
    without --force. With --from and --here it holds what the machines reported, with what is not
    right on them as comments, and goes to NAME.yaml (lab.yaml, here.yaml) unless -o sets another
    file; -o - is stdout.
    """
    ui = Ui(as_json=as_json)
    if machines or here:
        access = api.Access(user, port, key, jump, install_key)
        cluster = name or ("here" if here else "lab")
        read = _reader([*(machines or []), *(words or [])], cluster, access, here=here)
        return _reported(ui, read, cluster, output, force=force)
    kind = kind_option or _kind(words)
    if schema:
        text = f"{json.dumps(api.schema(), indent=2)}\n"
    elif inventory:
        text, left = api.read_inventory(Path(inventory))
        for line in left:
            ui.note(f"not carried over: {line}", "yellow")
    elif existing:
        text, wrong = text_of(existing)
        for line in wrong:
            ui.note(line, "yellow")
    else:
        text = api.starting_file(kind, **_values(values or [], name))
    if output in ("", STDOUT):
        if as_json:
            ui.json({"schema": api.schema()} if schema else {"kind": kind, "text": text})
        else:
            typer.echo(text, nl=False)
        return Exit.GOOD
    _write(Path(output), text, force=force)
    ui.json({"file": output})
    ui.show(f"wrote {output}", *([] if schema else [f"next: corral plan {output}"]))
    return Exit.GOOD


def _kind(words: list[str] | None) -> str:
    if words and len(words) > 1:
        raise CorralError(
            Code.USAGE, f"one KIND, not {' '.join(words)}", hint="for addresses write --from first"
        )
    return words[0] if words else "laptop"


def _reader(
    machines: list[str], name: str, access: api.Access, *, here: bool
) -> Callable[..., Coroutine[Any, Any, Draft]]:
    """What makes the file: of this machine, or of those at addresses."""
    if not here:
        return partial(api.discover, machines, name=name, access=access)
    if machines or access != api.Access():
        raise CorralError(
            Code.USAGE,
            "--here is this machine, and takes no addresses and no options of ssh",
            hint="name machines with --from, or take this one with --here alone",
        )
    return partial(api.draft_here, name=name)


def _reported(
    ui: Ui, read: Callable[..., Coroutine[Any, Any, Draft]], name: str, output: str, *, force: bool
) -> int:
    path = Path(output or f"{name}.yaml")
    if output != STDOUT:
        _check_place(path, force=force)
    file = "" if output == STDOUT else shlex.quote(str(path))
    made = ui.run(
        lambda emit: read(emit=emit, file=file),
        state="nothing was written",
    )
    for warning in made.warnings:
        ui.note(f"please check: {warning}", "yellow")
    if output == STDOUT:
        ui.json({"text": made.text, "warnings": made.warnings})
        ui.show(made.text.rstrip("\n"))
        return Exit.GOOD
    _write(path, made.text, force=force)
    ui.json({"file": str(path), "warnings": made.warnings})
    ui.show(f"wrote {path}", f"next: corral up {path} --rehearse, or corral plan {path}")
    return Exit.GOOD


def _check_place(path: Path, *, force: bool) -> None:
    """Raise where the file cannot be written; called before machines are asked, too."""
    if path.exists() and not force:
        raise _there(path)
    check_folder(path)


def _there(path: Path) -> CorralError:
    return CorralError(
        Code.USAGE,
        f"{path} is there already",
        hint="name another file, or overwrite it with --force",
    )


def _values(pairs: list[str], name: str) -> dict[str, str | int | float]:
    values: dict[str, str | int | float] = {"name": name} if name else {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise CorralError(
                Code.USAGE, f"--set {pair}: no value", hint="write it as --set nodes='node[0-3]'"
            )
        values[key] = _number(value)
    return values


def _number(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        write_output(path, text.encode(), new=not force)
    except FileExistsError as error:
        raise _there(path) from error
    except OSError as error:
        raise CorralError(
            Code.USAGE, f"{path} cannot be written: {error.strerror}", hint="name another file"
        ) from error
