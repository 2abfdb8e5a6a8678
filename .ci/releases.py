"""Compares the tables of releases with what is published, and shows what changed.

    .venv/bin/python .ci/releases.py            # the rows, and who states each digest
    .venv/bin/python .ci/releases.py check      # newer releases, and files with another digest
    .venv/bin/python .ci/releases.py update     # the same, and the tables rewritten: read git diff

``check`` asks the projects' tags by git and fetches each file of a row. What is not reached is
named, and never taken for good. ``update`` writes the newest release of each line with the digest
of the file that it fetched: over the newest row of that line, or for Slurm below it, because
cluster files name its releases. Compare the digest with a second source before it is committed,
and name that in ``seen``. A newer line without a row, such as Slurm's next, is named: add it.
Exit status: 0 nothing new, 1 something is new or differs, 3 something was not reached.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src/corral"
TABLES = ("roles/container_files.yaml", "roles/keyrings.yaml", "spec/slurm/tarballs.yaml")
LIMIT_S = 120
ROW = re.compile(r"^- .*?(?=^- |\Z)", re.M | re.S)
FIELD = r"^[- ] {0}: (\S+)$"
VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Project:
    """Where a vendor's tags are, how one names a version, and what of it is its line.

    Attributes:
        tags: the repository.
        pattern: of a tag.
        line: how many numbers of a version are its line.
        named: cluster files name its versions: rows stay.
    """

    tags: str
    pattern: str
    line: int
    named: bool = False


PROJECTS = {  # by a part of the file's address
    "/NVIDIA/enroot/": Project("https://github.com/NVIDIA/enroot.git", r"v(\d+\.\d+\.\d+)", 0),
    "/NVIDIA/pyxis/": Project("https://github.com/NVIDIA/pyxis.git", r"v(\d+\.\d+\.\d+)", 0),
    "/slurm/slurm-": Project(
        "https://github.com/SchedMD/slurm.git", r"slurm-(\d+-\d+-\d+)-1", 2, named=True
    ),  # 25.11 is a line
}


@dataclass(frozen=True)
class File:
    """A row of a table: a file that nodes install."""

    table: Path
    text: str
    address: str
    sha256: str

    @property
    def name(self) -> str:
        file = self.address.rpartition("/")[2]
        system = re.search(r"/repos/(\w+)/", self.address)
        return f"{file} for {system[1]}" if system else file

    @property
    def project(self) -> Project | None:
        return next((p for part, p in PROJECTS.items() if part in self.address), None)

    @property
    def version(self) -> str:
        match = VERSION.search(self.name)
        return match[0] if match else ""

    @property
    def release_line(self) -> tuple[str, tuple[int, ...]]:
        """What rows of which only the newest is updated have in common."""
        depth = self.project.line if self.project else 0
        return self.name.partition(self.version)[0], numbers(self.version)[:depth]

    @property
    def seen(self) -> str:
        return " ".join(
            self.text.partition("seen:")[2].replace("\\\n", " ").strip().strip('"').split()
        )


def rows(source: Path) -> Iterator[File]:
    """All rows of the tables below a folder."""
    for name in TABLES:
        table = source / name
        for match in ROW.finditer(table.read_text()):
            fields = [re.search(FIELD.format(f), match[0], re.M) for f in ("address", "sha256")]
            if all(fields):
                yield File(table, match[0], *(field[1] for field in fields if field))


def numbers(version: str) -> tuple[int, ...]:
    """A version's numbers, which are in order."""
    return tuple(int(number) for number in version.split("."))


def tagged(project: Project) -> list[str]:
    """The versions of a project, oldest first.

    Raises:
        OSError: its tags cannot be read.
    """
    words = ["git", "ls-remote", "--tags", "--refs", project.tags]
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"no answer in {LIMIT_S} s") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"git ended with status {done.returncode}"]
        raise OSError(lines[-1])
    pattern = re.compile(rf"refs/tags/{project.pattern}$", re.M)
    return sorted({v.replace("-", ".") for v in pattern.findall(done.stdout)}, key=numbers)


def newest(file: File, versions: list[str]) -> str:
    """The newest version of a row's line, "" where the row has it."""
    _, line = file.release_line
    own = numbers(file.version)
    newer = [v for v in versions if numbers(v) > own and numbers(v)[: len(line)] == line]
    return newer[-1] if newer else ""


def newer_lines(files: list[File], versions: list[str]) -> list[str]:
    """The newest version of each line that is newer than all rows' lines, oldest first."""
    depth = files[0].project.line if files[0].project else 0
    own = max(file.release_line[1] for file in files)
    lines = {numbers(v)[:depth]: v for v in versions}  # versions are in order
    return [version for line, version in lines.items() if line > own]


def fetched(address: str) -> str:
    """The SHA-256 of what an address gives.

    Raises:
        OSError: it cannot be fetched, or not all of it.
    """
    digest, size = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(address, timeout=LIMIT_S) as answer:  # noqa: S310  # addresses of the tables
            announced = answer.headers.get("Content-Length", "")
            while piece := answer.read(1 << 20):
                digest.update(piece)
                size += len(piece)
    except http.client.HTTPException as error:
        raise OSError(f"the answer broke off: {type(error).__name__}") from error
    if announced.isdecimal() and int(announced) != size:  # read(n) ends early without an error
        raise OSError(f"{size} of {announced} bytes came")
    return digest.hexdigest()


def rewritten(file: File, version: str, sha256: str) -> str:
    """A row with another version of its file and the digest that was found here."""
    text = file.text.replace(file.version, version).replace(file.sha256, sha256)
    return text[: text.index("seen:")] + (
        f"seen: fetched from the vendor by .ci/releases.py on {date.today()}; no second source\n"
    )


@dataclass
class Findings:
    """What a run found, in lines, and its exit status."""

    show: Callable[[str], None]
    changed: bool = False
    missed: bool = False

    def change(self, text: str) -> None:
        self.changed = True
        self.show(text)

    def miss(self, text: str, error: OSError) -> None:
        self.missed = True
        self.show(f"{text}: not reached: {error}")

    @property
    def status(self) -> int:
        return 1 if self.changed else 3 if self.missed else 0


def _all_tags(projects: Iterable[Project]) -> dict[str, list[str] | OSError]:
    """Versions by the repository, or why they are not known."""
    tags: dict[str, list[str] | OSError] = {}
    for project in projects:
        try:
            tags[project.tags] = tagged(project)
        except OSError as error:
            tags[project.tags] = error
    return tags


def check(source: Path, write: bool, show: Callable[[str], None]) -> int:
    """Compare all rows with what is published; the exit status."""
    findings = Findings(show)
    files = list(rows(source))
    tags = _all_tags({file.project: None for file in files if file.project})
    last = {f.release_line: f for f in sorted(files, key=lambda f: numbers(f.version))}
    for file in files:
        newer = ""
        if file.project and last[file.release_line] is file:
            versions = tags[file.project.tags]
            if isinstance(versions, OSError):
                findings.miss(f"{file.name}: newer releases", versions)
            else:
                newer = newest(file, versions)
        _compare(file, findings)
        if newer:
            _newer(file, newer, write, findings)
    _new_lines(files, tags, findings)
    return findings.status


def _new_lines(files: list[File], tags: dict[str, list[str] | OSError], findings: Findings) -> None:
    for address, versions in tags.items():
        group = [f for f in files if f.project and f.project.named and f.project.tags == address]
        if group and not isinstance(versions, OSError):
            for version in newer_lines(group, versions):
                findings.change(f"{version} is published, of a line without a row: {address}")


def _compare(file: File, findings: Findings) -> None:
    try:
        digest = fetched(file.address)
    except OSError as error:
        findings.miss(f"{file.name}: its digest", error)
        return
    if digest == file.sha256:
        findings.show(f"{file.name}: the vendor's file has the digest of the table")
    else:
        findings.change(f"{file.name}: the vendor's file has another digest: {digest}")


def _newer(file: File, version: str, write: bool, findings: Findings) -> None:
    findings.change(f"{file.name}: {version} is published")
    if not write:
        return
    address = file.address.replace(file.version, version)
    try:
        digest = fetched(address)
    except OSError as error:
        findings.miss(f"  {address}", error)
        return
    text, row = file.table.read_text(), rewritten(file, version, digest)
    kept = f"{file.text.rstrip()}\n" if file.project and file.project.named else ""
    file.table.write_text(text.replace(file.text, kept + row))
    findings.show(f"  {file.sha256} -> {digest}: written to {file.table.name}")


def main(words: list[str]) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("do", nargs="?", choices=("list", "check", "update"), default="list")
    parser.add_argument(
        "--source", type=Path, default=SRC, help="folder of the tables (src/corral)"
    )
    asked = parser.parse_args(words)
    if asked.do == "list":
        for file in rows(asked.source):
            print(f"{file.name}\n  {file.address}\n  sha256 {file.sha256}\n  seen: {file.seen}")
        return 0
    return check(asked.source, asked.do == "update", print)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
