"""No file of Corral's has a provider's word: comments, docstrings, tables, programs and the page.

``test_providers`` reads what Python does with a name; this reads every text file as a person
does, line by line. Exempt are not files but what somebody else wrote: a citation or a message in
a field of a table that is for it, an address, a wheel's file name with its digest.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from corral import api
from corral.api.config.export import export_tool
from corral.spec.providers import TOOLS
from tests.unit.spec.test_providers import HOMES, PARTS, PUBLIC, REGISTERED, SOURCES, WORDS

BINARY = {".png", ".woff2", ".ico", ".pyc"}
FILES = sorted(
    file
    for file in SOURCES.rglob("*")
    if file.is_file()
    and file.suffix not in BINARY
    and file != REGISTERED
    and not any(file.is_relative_to(home) for home in HOMES)
)
"""All text but the registry, providers' folders and the simulators of clouds."""

WORD = re.compile(
    rf"(?<![A-Za-z0-9])({'|'.join([*sorted(WORDS), *(part.pattern for part in PARTS.values())])})"
    r"(?![A-Za-z0-9])",
    re.IGNORECASE,
)
"""Names of providers, titles and clients of clouds, and words for what only one provider has."""

CITATIONS = frozenset({"source", "seen", "seen_source"})
"""Fields of tables that name the document which a row is from."""
MESSAGES = frozenset(
    {"patterns", "needs", "unless", "unless_line", "examples", "management_programs"}
)
"""Fields of tables that hold what other people's programs print, and their paths in tracebacks."""
FOREIGN = re.compile(
    r"https?://\S+"  # an address
    r"|\S+\.whl [0-9a-f]{64}"  # a wheel and its digest
    r"|<lambda>|\blambda [\w*, ]+:"  # Python's, in a text
    r"|\btests/embedded\b"  # a folder of this repository
    rf"|\b(?:{'|'.join(PUBLIC)})\b"  # public names of corral.api
)


def quoted_lines(text: str) -> set[int]:
    """Lines of a table that hold a citation or a message only."""
    lines: set[int] = set()

    def visit(node: Node | None) -> None:
        match node:
            case MappingNode(value=pairs):
                for key, value in pairs:
                    if key.value in CITATIONS | MESSAGES:
                        last = value.end_mark.line + (value.end_mark.column > 0)
                        lines.update(range(value.start_mark.line + 1, last + 1))
                    else:
                        visit(value)
            case SequenceNode(value=entries):
                for entry in entries:
                    visit(entry)
            case _:
                pass

    visit(YAML().compose(text))
    return {n for n in lines if not text.splitlines()[n - 1].lstrip().startswith("#")}


def without_keyword(text: str) -> str:
    """Python without its own word ``lambda``."""
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string == "lambda":
            (row, start), (_, end) = token.start, token.end
            lines[row - 1] = lines[row - 1][:start] + "_" * (end - start) + lines[row - 1][end:]
    return "".join(lines)


def words_in(text: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Line numbers and words of providers in a file's text."""
    if not WORD.search(FOREIGN.sub("", text)):
        return
    if suffix in {".py", ".pyi"}:
        text = without_keyword(text)
    skipped = quoted_lines(text) if suffix in {".yaml", ".yml"} else set[int]()
    for number, line in enumerate(text.splitlines(), 1):
        if number not in skipped:
            for match in WORD.finditer(FOREIGN.sub("", line)):
                yield number, match[0]


@cache
def read(file: Path) -> str:
    return file.read_text("utf-8")


def test_files_of_all_kinds_are_read() -> None:
    kinds = {"", ".py", ".pyi", ".sh", ".pl", ".awk", ".yaml", ".yml", ".json", ".lock", ".html"}
    assert kinds | {".js", ".mjs", ".css", ".ts"} <= {file.suffix for file in FILES}
    assert len(FILES) > 800


def test_no_file_has_a_providers_word() -> None:
    uses = [
        f"{file.relative_to(SOURCES)}:{line}: {word}"
        for file in FILES
        for line, word in words_in(read(file), file.suffix)
    ]
    assert not uses, "\n".join(uses)


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".py", "# slurm-gcp's prolog"), (".py", '"""As RunPod documents."""'),
        (".py", "x = 1  # lambda's rule"), (".py", "KEY = 'LAMBDA_API_KEY'"),
        (".py", "def f(runpod_id): ..."), (".sh", "# Paperspace's startup scripts"),
        (".sh", 'echo "$LAMBDA_API_KEY"'), (".toml", 'a = "gcp"'), (".js", "// embedded nodes"),
        (".html", "<p>Lambda Cloud</p>"), (".css", "/* DeepOps */"), (".json", '{"a": "runpod"}'),
        (".yaml", "- title: GCP A3 Mega"), (".yaml", "# Google's table"),
        (".yaml", "- source: a\n  cause: Google took it"),
        (".yaml", "- patterns: [a]\n  fix: gcp's console"),
        (".yaml", "- source: a\n  # a3 machines\n  cause: b"),
        (".py", "# machines of provider ssh"), (".py", '"""Of a provider: local."""'),
        (".py", '"""Writes a blueprint."""'), (".py", "# as the Cluster Toolkit does"),
        (".yaml", "- fix: gcloud auth login"), (".sh", "# runpodctl remove pod"),
        (".yaml", "- fix: install nccl-gib"), (".js", "// NCCL's network is gIB"),
        (".py", '"""Of the Compute Engine API."""'), (".md", "an Instant Cluster"),
        (".yaml", "- cause: OS Login has no such user"), (".py", "x = 'c2-standard-8'"),
    ],
)  # fmt: skip
def test_a_word_is_found(suffix: str, text: str) -> None:
    assert [*words_in(text + "\n", suffix)]


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".py", "f = lambda x: x"), (".py", "# see https://docs.runpod.io/x"),
        (".py", "# passwordless ssh"), (".py", "# a local disk"), (".js", "gib(mib), 'GiB'"),
        (".yaml", "- source: Google Cloud documentation"),
        (".yaml", "- patterns:\n    - 'googleapi: a'\n    - 'slurm-gcp'\n  cause: b"),
        (".yaml", "- examples:\n    'googleapi: a': 'b'\n  fix: c"),
        (".lock", f"google_auth-2.62.2-py3-none-any.whl {'0' * 64}"),
        (".py", "from corral.api.config.export import export_gcluster"),
    ],
)  # fmt: skip
def test_what_others_wrote_is_not(suffix: str, text: str) -> None:
    assert not [*words_in(text + "\n", suffix)]


def test_public_names_are_those_of_tools_of_a_registered_provider() -> None:
    assert all(callable(getattr(api, name)) for name in PUBLIC)
    exports = {name.removeprefix("export_") for name in PUBLIC if name.startswith("export_")}
    assert exports <= set(TOOLS) and callable(export_tool)
