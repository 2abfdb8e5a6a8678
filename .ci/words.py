"""Finds listed words in texts and names: ``words.py [PATH...]``; ``words.yaml`` is the list.

A folder that ``words_left.yaml`` names may hold the number given there, never more; ``--record``
lowers the numbers. All other files hold none.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

HERE = Path(__file__).parent
REPO = HERE.parent
LEFT = HERE / "words_left.yaml"

MASK = "\0"
# A space of a pattern: spaces, or one line's end with the next line's comment mark.
GAP = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:(?:#|//|\*|>)+[ \t]*)?)"
PHRASE = re.compile(r"[A-Za-z]{2,}[,;:.]? \(?[A-Za-z0-9]")
ARGUMENT = re.compile(
    r"^[ \t]+\**\w+:(?=\s)", re.M
)  # of a docstring: a name, judged where it is defined
SPAN = re.compile(r"(`+)[^`\n]+(?:\n[^`\n]+)?\1")
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def spaced(pattern: str) -> re.Pattern[str]:
    """A pattern whose spaces, outside of brackets, stand for a line's end too."""
    return re.compile(re.sub(r"(\[[^\]]*\])| ", lambda m: m[1] or GAP, pattern), re.I | re.M)


class Hit(NamedTuple):
    """One listed word in a file."""

    file: str
    line: int
    column: int
    piece: str
    use: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.piece}: write {self.use}"


class Name(NamedTuple):
    """Where a name is defined: offset in the file; a variable or parameter; a dictionary's key."""

    offset: int
    name: str
    variable: bool
    key: bool = False


@dataclass(frozen=True)
class Word:
    """One row of the list."""

    word: str
    use: str
    text: str = ""
    names: list[str] = field(default_factory=list[str])
    parts: list[str] = field(default_factory=list[str])
    variables: list[str] = field(default_factory=list[str])
    complete: list[str] = field(default_factory=list[str])
    allow: list[str] = field(default_factory=list[str])

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Finds the word in texts."""
        return spaced(self.text)

    @cached_property
    def allowed(self) -> re.Pattern[str]:
        """Finds contexts in which the pattern is right."""
        return spaced("|".join(self.allow))

    def in_text(self, text: str) -> Iterator[tuple[int, str]]:
        """Places in a text, less those within something allowed."""
        if not self.text:
            return
        good = [m.span() for m in self.allowed.finditer(text)] if self.allow else []
        for match in self.pattern.finditer(text):
            if not any(a <= match.start() and match.end() <= b for a, b in good):
                yield match.start(), " ".join(match[0].split())

    def in_name(self, name: Name) -> bool:
        """Whether a name is, or has a part that is, listed."""
        if name.variable and name.name in self.variables:
            return True
        if name.name.strip("_").lower() in self.complete:
            return True
        parts = [part.lower() for part in PART.findall(name.name)]
        if not name.name.startswith("test_") and not set(parts).isdisjoint(self.parts):
            return True  # A test's name is a sentence.
        phrases = f"_{'_'.join(parts)}_"
        return any(f"_{listed.lower()}_" in phrases for listed in self.names)


def masked(text: str, keep: list[tuple[int, int]]) -> str:
    """The text with everything but ``keep`` masked; lines and offsets stay."""
    out: list[str] = []
    at = 0
    for start, end in [*sorted(keep), (len(text), len(text))]:
        out.append(re.sub(r"\S", MASK, text[at:start]))
        out.append(text[start:end])
        at = max(at, end)
    return "".join(out)


def without(pattern: re.Pattern[str], text: str) -> str:
    """The text with every match masked."""
    return pattern.sub(lambda m: re.sub(r"\S", MASK, m[0]), text)


def starts(text: str) -> list[int]:
    """Offsets of the lines."""
    offsets = [0]
    for line in text.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    return offsets


# Python


def docstrings(tree: ast.AST) -> set[tuple[int, int]]:
    """Places of expressions that are constants."""
    return {
        (node.value.lineno, node.value.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def python_texts(text: str) -> str:
    """Comments, docstrings, and literals that hold words; raw ones are patterns."""
    at = starts(text)
    docs = docstrings(ast.parse(text))
    keep: list[tuple[int, int]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in {tokenize.COMMENT, tokenize.STRING}:
            continue
        start, end = at[token.start[0] - 1] + token.start[1], at[token.end[0] - 1] + token.end[1]
        if token.type == tokenize.STRING and token.start not in docs:
            quote = re.match(r"[A-Za-z]*", token.string)
            prefix = quote[0].lower() if quote else ""
            if "r" in prefix or not PHRASE.search(token.string):
                continue
            if "f" in prefix:
                at_code = start
                for code in re.finditer(r"\{\{|\}\}|\{[^{}]*\}", token.string):
                    keep.append((at_code, start + code.start()))
                    at_code = start + code.end()
                start = at_code
        elif token.type == tokenize.STRING:
            for argument in ARGUMENT.finditer(token.string):
                keep.append((start, at[token.start[0] - 1] + token.start[1] + argument.start()))
                start = at[token.start[0] - 1] + token.start[1] + argument.end()
        keep.append((start, end))
    return without(SPAN, masked(text, keep))


def python_names(text: str) -> Iterator[Name]:
    """Names where they are bound, and keys of dictionaries."""
    at = starts(text)
    lines = text.splitlines()

    def offset(line: int, column: int) -> int:
        """Columns of ``ast`` count bytes."""
        row = lines[line - 1]
        return at[line - 1] + (
            column if row.isascii() else len(row.encode()[:column].decode(errors="ignore"))
        )

    tree = ast.parse(text)
    yield from bound_names(tree, offset)
    yield from keys(tree, offset)


def bound_names(tree: ast.AST, offset: Callable[[int, int], int]) -> Iterator[Name]:
    """Functions, classes, parameters, variables; what a class declares is a name, no variable."""
    fields = {
        id(part.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for part in node.body
        if isinstance(part, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield Name(offset(node.lineno, node.col_offset), node.name, variable=False)
            case ast.arg():
                yield Name(offset(node.lineno, node.col_offset), node.arg, variable=True)
            case ast.Name(ctx=ast.Store()):
                place = offset(node.lineno, node.col_offset)
                yield Name(place, node.id, variable=id(node) not in fields)
            case ast.Attribute(ctx=ast.Store(), value=ast.Name(id="self")):
                end = offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
                yield Name(end - len(node.attr), node.attr, variable=True)
            case ast.ExceptHandler(name=str() as name):
                yield Name(offset(node.lineno, node.col_offset), name, variable=True)
            case _:
                pass


def keys(tree: ast.AST, offset: Callable[[int, int], int]) -> Iterator[Name]:
    """Keys of dictionaries, which JSON shows to users; judged like variables."""
    for node in ast.walk(tree):
        parts: list[ast.expr | None] = []
        if isinstance(node, ast.Dict):
            parts = node.keys
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        for part in parts:
            value = part.value if isinstance(part, ast.Constant) else None
            if part is not None and isinstance(value, str) and value.isidentifier():
                yield Name(offset(part.lineno, part.col_offset), value, variable=True, key=True)


# Other languages: the complete file is text, and what a pattern finds defined in it is a name.

JS_NAME = re.compile(r"\b(?P<kind>const|let|var|function|class)\s+(?P<name>[\w$]+)")
# Parameters: in brackets before a body or an arrow, destructured or not, or alone before an arrow.
JS_PARAMETERS = re.compile(
    r"(?:\bfunction\b[ \t]*\*?[ \t]*[\w$]*|^[ \t]+(?:(?:static|async|get|set) )*\#?"
    r"(?!(?:if|for|while|switch|catch)\b)[\w$]+)[ \t]*\((?P<method>[^()]*)\)\s*\{"
    r"|\((?P<arrow>[^()]*)\)\s*=>|(?P<single>[\w$]+)\s*=>",
    re.M,
)
JS_BOUND = re.compile(r"(?<![\w$.])(?P<name>[A-Za-z_$][\w$]*)(?=\s*(?:[,}\]=]|$))")
# Code up to a text: comment, string, template, bracket; a pattern only where a value may begin.
JS_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>(["'])(?:\\.|(?!\3)[^\\\n])*\3)"""
    r"|(?P<pattern>(?:(?<=[(,=:\[!&|?{};>+])|(?<=return))\s*/(?![*/])"
    r"(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/)|(?P<template>`)|(?P<bracket>[{}])",
    re.S,
)
JS_TEMPLATE = re.compile(r"(?P<text>(?:\\.|\$(?!\{)|[^`\\$])*)(?:`|(?P<code>\$\{))", re.S)
JS_ESCAPED_SPAN = re.compile(r"\\`[^`]*\\`")  # a code span in a template
PERL_NAME = re.compile(
    r"\b(?P<kind>sub|my|our|local)\s+(?P<name>\w+|[\$@%]\w+|\([^()]*\))|\bforeach\s+(?P<each>\$\w+)"
)
PERL_VARIABLE = re.compile(r"[\$@%](?P<name>\w+)")
# awk binds by use: an assignment, a loop over keys, a function and its parameters, -v in a shell.
AWK_NAME = re.compile(
    r"\bfunction\s+(?P<function>\w+)\s*\((?P<parameters>[^()]*)\)"
    r"|\bfor\s*\(\s*(?P<key>\w+)\s+in\b"
    r"|(?<![\w$.])(?P<assigned>[A-Za-z_]\w*)\s*(?:\[[^\]\n]*\])?\s*(?:[-+*/%]?=(?![=~])|\+\+|--)"
)
AWK_IN_SHELL = re.compile(r"\bawk\b(?P<options>[^'|;\n]*(?:\\\n[^'|;\n]*)*)'(?P<program>[^']*)'")
AWK_OPTION = re.compile(r"-v\s*(?P<name>[A-Za-z_]\w*)=")
SHELL_NAME = re.compile(
    r"^\s*(?:local |readonly |export )?(?P<name>[A-Za-z_]\w*)(?P<kind>\(\)|=)", re.M
)
SHELL_BOUND = re.compile(
    r"\bfor\s+(?P<each>[A-Za-z_]\w*)\s+in\b|\bread(?:\s+-\w+)*(?P<read>(?:[ \t]+[A-Za-z_]\w*)+)"
)


def names_by(pattern: re.Pattern[str]) -> Callable[[str], Iterator[Name]]:
    """A reader of the names that a pattern finds where they are defined."""

    def names(text: str) -> Iterator[Name]:
        for match in pattern.finditer(text):
            yield Name(match.start("name"), match["name"], match["kind"] in "const let var =")

    return names


def javascript_names(text: str) -> Iterator[Name]:
    """Declarations and parameters."""
    yield from names_by(JS_NAME)(text)
    for match in JS_PARAMETERS.finditer(text):
        part = next(name for name, value in match.groupdict().items() if value is not None)
        for bound in JS_BOUND.finditer(match[part]):
            yield Name(match.start(part) + bound.start(), bound["name"], variable=True)


def javascript_parts(text: str) -> Iterator[tuple[str, int, int]]:
    """Comments, strings and the texts of templates: kind, start, end."""
    at = 0
    brackets: list[int] = []  # those open within each ${ that is open
    while match := JS_TOKEN.search(text, at):
        at = match.end()
        kind = match.lastgroup or ""
        if kind == "bracket" and brackets:
            brackets[-1] += 1 if match[0] == "{" else -1
        if kind in {"comment", "string"}:
            yield kind, match.start(), at
        elif kind == "template" or (brackets and brackets[-1] < 0):
            if kind == "bracket":
                brackets.pop()
            part = JS_TEMPLATE.match(text, at)
            if part is None:  # no end
                return
            yield "template", at, part.end("text")
            at = part.end()
            if part["code"]:
                brackets.append(0)


def javascript_texts(text: str) -> str:
    """All of the file, without quoted names in comments, strings and templates."""
    out: list[str] = []
    at = 0
    for kind, start, end in javascript_parts(text):
        span = JS_ESCAPED_SPAN if kind == "template" else SPAN
        out += [text[at:start], without(span, text[start:end])]
        at = end
    return "".join([*out, text[at:]])


def perl_names(text: str) -> Iterator[Name]:
    """Functions and declared variables."""
    for match in PERL_NAME.finditer(text):
        if match["kind"] == "sub":
            yield Name(match.start("name"), match["name"], variable=False)
            continue
        part = "each" if match["each"] else "name"
        for variable in PERL_VARIABLE.finditer(match[part]):
            at = match.start(part) + variable.start("name")
            yield Name(at, variable["name"], variable=True)


def awk_names(text: str) -> Iterator[Name]:
    """Functions, their parameters, and variables that are assigned."""
    for match in AWK_NAME.finditer(text):
        if match["function"]:
            yield Name(match.start("function"), match["function"], variable=False)
            for name in re.finditer(r"\w+", match["parameters"]):
                yield Name(match.start("parameters") + name.start(), name[0], variable=True)
        else:
            part = "key" if match["key"] else "assigned"
            yield Name(match.start(part), match[part], variable=True)


def shell_names(text: str) -> Iterator[Name]:
    """Functions and variables, those of awk programs too."""
    yield from names_by(SHELL_NAME)(text)
    for match in SHELL_BOUND.finditer(text):
        part = "each" if match["each"] else "read"
        for name in re.finditer(r"\w+", match[part]):
            yield Name(match.start(part) + name.start(), name[0], variable=True)
    for match in AWK_IN_SHELL.finditer(text):
        for name in awk_names(match["program"]):
            yield name._replace(offset=match.start("program") + name.offset)
        for option in AWK_OPTION.finditer(match["options"]):
            at = match.start("options") + option.start("name")
            yield Name(at, option["name"], variable=True)


def no_names(_text: str) -> Iterator[Name]:
    """None: the language's names are not read."""
    return iter(())


def all_text(text: str) -> str:
    """All of the file, without quoted names."""
    return without(SPAN, text)


def yaml_texts(text: str) -> str:
    """Data and comments, without values that quote other programs."""
    key = re.compile(rf"^([ -]*)(?:{'|'.join(LIST['quoted_keys'])}):")
    out: list[str] = []
    column = -1  # of the key whose value is being left out
    for line in text.splitlines(keepends=True):
        depth = len(line) - len(line.lstrip(" "))
        inside = depth > column or (depth == column and line.lstrip().startswith("- "))
        if column >= 0 and (inside or not line.strip()):
            out.append(re.sub(r"\S", MASK, line))
            continue
        match = key.match(line)
        column = len(match[1]) if match else -1
        out.append(re.sub(r"\S", MASK, line) if match else line)
    return without(SPAN, "".join(out))


LANGUAGES: dict[str, tuple[Callable[[str], str], Callable[[str], Iterator[Name]]]] = {
    ".py": (python_texts, python_names),
    ".pyi": (python_texts, python_names),
    ".js": (javascript_texts, javascript_names),
    ".sh": (all_text, shell_names),
    ".pl": (all_text, perl_names),
    ".awk": (all_text, awk_names),
    ".yaml": (yaml_texts, no_names),
}


class Left(NamedTuple):
    """What a folder of ``words_left.yaml`` may still hold."""

    folder: str
    count: int


def read(file: Path) -> Any:
    """YAML, or nothing where there is no file."""
    return YAML(typ="safe").load(file.read_text()) if file.exists() else {}


LIST = read(HERE / "words.yaml")
WORDS = [Word(**row) for row in LIST["words"]]
PUBLIC = {row["name"] for row in LIST["public"]}
PUBLIC_KEYS = {row["name"] for row in LIST["public_keys"]}


def not_ours(file: str) -> bool:
    """Path.match of 3.11 has no **: a folder and what is below it end with /**."""

    def matches(pattern: str) -> bool:
        shape = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*")
        return re.fullmatch(shape.replace(r"\*", "[^/]*"), file) is not None

    return any(matches(p) for row in LIST["not_ours"] for p in row["files"])


def hits(file: str, text: str) -> list[Hit]:
    """Listed words of one file; ``file`` decides by its name how it is read."""
    suffix = Path(file).suffix
    if not suffix and text.startswith("#!") and "sh" in text.split("\n", 1)[0]:
        suffix = ".sh"
    texts, names = LANGUAGES.get(suffix, (all_text, no_names))
    ours = texts(text)
    places = [(at, piece, word.use) for word in WORDS for at, piece in word.in_text(ours)]
    for name in names(text):
        if name.name not in PUBLIC and not (name.key and name.name in PUBLIC_KEYS):
            places += [(name.offset, name.name, w.use) for w in WORDS if w.in_name(name)]
    module = Name(0, Path(file).stem, variable=False)
    if module.name not in PUBLIC:
        places += [(0, module.name, word.use) for word in WORDS if word.in_name(module)]
    out: list[Hit] = []
    for at, piece, use in sorted(places):
        line = text.count("\n", 0, at) + 1
        out.append(Hit(file, line, at - (text.rfind("\n", 0, at) + 1) + 1, piece, use))
    return out


def files(paths: list[str]) -> list[str]:
    """Tracked and new files below the paths that are ours, by name."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"]
    command += ["--exclude-standard", "--", *paths]
    listed = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True)
    return sorted(f for f in listed.stdout.split("\0") if f and not not_ours(f))


def all_hits(paths: list[str]) -> Iterator[Hit]:
    """Listed words of all files below the paths."""
    for file in files(paths):
        try:
            text = (REPO / file).read_text()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        yield from hits(file, text)


def folder_of(file: str, folders: list[str]) -> str:
    """The deepest listed folder of a file, or nothing."""
    inside = [f for f in folders if file == f or file.startswith(f + "/")]
    return max(inside, key=len, default="")


def judged(listed: list[Hit], left: dict[str, int]) -> tuple[list[str], Counter[str]]:
    """What is wrong, and how many each listed folder holds."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    of: dict[str, list[Hit]] = {}
    for hit in listed:
        of.setdefault(folder_of(hit.file, list(left)), []).append(hit)
    wrong += [str(hit) for hit in of.pop("", [])]
    for folder, those in of.items():
        counts[folder] = len(those)
        if len(those) > left[folder]:
            wrong += [str(hit) for hit in those]
            wrong.append(f"{folder}: {len(those)} listed words, at most {left[folder]}")
    return wrong, counts


def main() -> int:
    """Print what is found; exit status 1 when there is more than may be."""
    parser = argparse.ArgumentParser(description="Find listed words in texts and names.")
    parser.add_argument("paths", nargs="*", help="Files or folders. Default: all.")
    parser.add_argument("--all", action="store_true", help="List those of words_left.yaml, too.")
    parser.add_argument(
        "--record", action="store_true", help="Lower the numbers of words_left.yaml."
    )
    options = parser.parse_args()
    left: dict[str, int] = {} if options.all else dict(read(LEFT) or {})
    wrong, counts = judged(list(all_hits(options.paths)), left)
    for line in wrong:
        print(line)
    if options.record and not options.paths:
        lower = {f: min(n, counts[f]) for f, n in left.items() if counts[f]}
        head = LEFT.read_text().splitlines(keepends=True)[0]
        LEFT.write_text(head + "".join(f"{f}: {n}\n" for f, n in sorted(lower.items())))
    if counts:
        print(f"words: {sum(counts.values())} left in {len(counts)} folders of words_left.yaml")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
