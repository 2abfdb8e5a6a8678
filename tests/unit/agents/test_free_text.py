"""What users write is never the line of a job: names, comments, folders may hold line ends.

Neither squeue nor sacct escapes them. So a program asks for such a column alone and for one job, or
separates fields by a mark that nobody can know beforehand, or does without.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.agents import FOLDER, program
from corral.errors import CorralError
from corral.inspect.jobs import HistoryColumns, QueueColumns
from corral.slurm.text import FREE_TEXT, QUEUE, parse_counted, parse_queue, readable_runs

SOURCE = FOLDER.parent
COMMAND = re.compile(
    r"(?<![\w./-])(?P<name>squeue|sacct|sinfo|sstat|sacctmgr|scontrol)"
    r"(?P<words> (?:'[^']*'|\"[^\"]*\"|[^|;&)\n'\"])*)"
)
FORMAT = re.compile(
    r"(?:^| )\"?(?:-[oO] ?|(?:--)?[fF]ormat[ =])(?P<given>'[^']*'|\"[^\"]*\"|[^\s\"]+)"
)
COLUMN = re.compile(r"%[.\d]*([A-Za-z])|([A-Za-z]+)")
OTHERS_TEXT = {"sinfo": {"%E"}, "sacctmgr": {"Description", "Organization", "Reason", "Comment"}}
"""What operators write; sacctmgr has no other separator than its own."""
RECORD = re.compile(r"\bshow(?: -\S+)* jobs?\b")
NO_TEXT = re.compile(
    r"--json|--version|-V\b|--batch-script|show (?:-\S+ )?(?:hostnames|config|nodes?"
    r"|partitions?|reservation|cluster)\b|ping|listpids|update|create|delete|requeue|reconfigure|token|write"
    r"|add|modify|release|hold\b"
)
"""Forms of these commands that print no job, or all of it as JSON."""
GIVEN = {
    "jobs/user.sh": "QueueColumns, which refuse a user's text without a mark",
    "prove/jobs.sh": "QueueColumns and HistoryColumns",
    "notify/send.py": "its own FORMAT, below",
    "state/databases.sh": "names and limits of QOS",
}
"""Programs whose columns their caller gives."""
KNOWN = {
    ("prolog/run.sh", "scontrol show -d job"): "a line more can only make a job of all CPUs one of "
    "fewer, which its user may ask for anyway: real lines are always there",
    (
        "prove/jobs.sh",
        "%j",
    ): "complete lines that are names of this proof; cancelled by user and name",
    ("preemption.sh", "%k"): "of one job: all that is printed is its comment",
    ("jobs/batch/again.sh", "%E"): "operators write reasons; the job's own user runs it",
    ("state/databases.sh", "Description"): "administrators and coordinators write it",
    ("state/directory.sh", "its own columns"): "only whether there are any",
}
"""Where a program asks for free text, and why that is safe."""


def programs() -> dict[str, str]:
    """All programs for machines by path, without comments, each command on one line."""
    files = [*FOLDER.rglob("*"), *SOURCE.glob("providers/*/programs/*")]
    texts: dict[str, str] = {}
    for file in files:
        if file.is_file() and file.suffix not in (".pyc",) and file.name != "__init__.py":
            name = str(file.relative_to(FOLDER)) if FOLDER in file.parents else file.name
            text = re.sub(r"(?:^|(?<=\s))#\s.*$", "", file.read_text(), flags=re.MULTILINE)
            texts[name] = text.replace("\\\n", " ")
    return texts


def word_of(node: ast.expr) -> str:
    """A word of a command; ``{}`` is what is not written there."""
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=values):
            return "".join(word_of(value) for value in values)
        case _:
            return "{}"


def words_of_python(text: str) -> str:
    """Commands that a Python program gives as words, one a line."""
    lines: list[str] = []
    for node in ast.walk(ast.parse(text)):
        parts = node.elts if isinstance(node, ast.Tuple) else getattr(node, "args", [])
        if isinstance(parts, list):
            lines.append(" ".join(word_of(part) for part in parts))
    return "\n".join(lines)


def asked() -> Iterator[tuple[str, str, str]]:
    """Each call of Slurm's commands that lists something: program, command, its words."""
    for name, text in programs().items():
        shell = words_of_python(text) if name.endswith(".py") else text
        for match in COMMAND.finditer(shell):
            yield name, match["name"], match["words"]


def columns(command: str, words: str) -> list[str] | None:
    """The columns of a format; None where a caller gives it."""
    given = FORMAT.search(words)
    if command == "sacctmgr" and not given:
        return ["its own columns"]
    assert given, f"{command}{words}: without a format it prints names"
    text = given["given"].strip("'\"")
    if text.startswith(("$", "{")):
        return None
    percent = command in ("squeue", "sinfo") and "%" in text
    names = [f"%{m[1]}" if m[1] else m[2] for m in COLUMN.finditer(text)]
    return [column for column in names if column.startswith("%") == percent]


def free(command: str, words: str) -> Iterator[str]:
    """What users or operators write in what a command prints."""
    if command == "scontrol":
        if RECORD.search(words):
            yield "scontrol show -d job" if "-d" in words else "scontrol show job"
    elif not NO_TEXT.search(words):
        named = columns(command, words)
        texts = OTHERS_TEXT.get(command, FREE_TEXT) | {"its own columns"}
        yield from ("given",) if named is None else (c for c in named if c in texts)


def test_every_program_that_asks_for_a_users_text_is_known() -> None:
    """Root signalled the jobs that a job's comment named, and cancelled those that a name did."""
    uses = {(name, text) for name, command, words in asked() for text in free(command, words)}
    given = {name for name, text in uses if text == "given"}
    assert given == {*GIVEN}
    assert {pair for pair in uses if pair[1] != "given"} == {*KNOWN}
    (shown,) = re.findall(r"^FORMAT = \((.*?)^\)", programs()["notify/send.py"], re.M | re.S)
    assert not FREE_TEXT.intersection(re.findall(r'"(\w+)"', shown))


def texts_of(tree: ast.AST) -> Iterator[str]:
    """What a module writes as commands: texts, and words in a row; without docstrings."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List):
            yield " ".join(word_of(part) for part in node.elts)
        elif isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in docs:
            yield word_of(node)


OF_MODULES = {
    ("inspect/jobs.py", "SubmitLine"): "of one job, its first line",
    ("inspect/slurm.py", "%E"): "operators write reasons; printed for people",
    ("jobs/control.py", "scontrol show job"): "an advice",
    ("slurm/text.py", "scontrol show job"): "of one job, its first line",
}
"""Where a module of Corral asks for free text, and why that is safe; see QueueColumns, too."""


def test_every_module_that_asks_for_a_users_text_is_known() -> None:
    uses: set[tuple[str, str]] = set()
    for file in SOURCE.rglob("*.py"):
        if FOLDER in file.parents:
            continue
        for text in texts_of(ast.parse(file.read_text())):
            for match in COMMAND.finditer(text):
                words = match["words"]
                if FORMAT.search(words) or RECORD.search(words):
                    name = str(file.relative_to(SOURCE))
                    uses |= {(name, shown) for shown in free(match["name"], words)}
    assert {pair for pair in uses if pair[1] != "given"} == {*OF_MODULES}


def test_the_search_finds_each_form() -> None:
    for text, expected in (
        ("x=$(timeout 10 squeue -h -w \"$node\" -t R -o '%A %k')", ["%k"]),
        ('squeue -h --format="%i|%.40j"', ["%j"]),
        ("sacct -n -P -X --format=JobID,JobName", ["JobName"]),
        ("scontrol --oneliner show job 7", ["scontrol show job"]),
        ("sinfo -h -N -o '%N %E'", ["%E"]),
        ("squeue -h -o %A", []),
        ('squeue -h -o "$2"', ["given"]),
        ("squeue --json", []),
    ):
        (match,) = COMMAND.finditer(text)
        assert list(free(match["name"], match["words"])) == expected
    with pytest.raises(AssertionError, match="prints names"):
        list(free("squeue", " -h -u ada"))


def test_numbers_that_are_cancelled_or_signalled_are_operands() -> None:
    """Behind ``--``: what begins with a hyphen is not an option."""
    calls = [
        (name, line.strip())
        for name, text in programs().items()
        for line in text.splitlines()
        if re.search(r"\bscancel\b", line)
    ]
    assert len(calls) >= 6
    by_name = re.compile(r"scancel (?:-\w(?: [A-Z]\w+)? )*(?:-u \"\$\w+\" )?-n \"\$\w+\"(?:$| )")
    wrong = [call for call in calls if " -- " not in call[1] and not by_name.search(call[1])]
    assert wrong == []


SQUEUE = """\
#!{python}
import json, re, sys
jobs, words, only, shown = json.load(open("jobs.json")), sys.argv[1:], {{}}, None
while words:
    word = words.pop(0)
    name, _, value = word.partition("=")
    key = {{"-u": "%u", "-n": "%j", "-j": "%A", "--jobs": "%A", "-o": "", "--format": ""}}.get(name)
    if key is not None:
        value = value or words.pop(0)
        if key:
            only[key] = value.split(",")
        else:
            shown = value
    elif name in ("-w", "-t"):
        words.pop(0)
for job in jobs:
    if all(job[key] in values for key, values in only.items()):
        print(re.sub(r"%[.0-9]*([A-Za-z])", lambda m: job["%" + m[1]], shown))
"""
"""A squeue that prints what is in jobs.json, as Slurm does: nothing is escaped."""
OWN, FOREIGN = "12", "4711"
TEXT = "\n".join(
    (
        "x",
        FOREIGN,
        f"{FOREIGN} corral-prove-1",
        "--user=bob",
        "corral-prove-1,bobs",
        "corral-prove-1 bobs",
        "-w n1",
        f"job {FOREIGN} (bob, 1:00 so far)",
        f"{FOREIGN} of bob RUNNING on n1 in main",
        "corral-prove-1-x",
    )
)
"""What a user writes into each free text of a job: lines of every form that is read."""


def job(number: str, user: str, text: str, name: str = "") -> dict[str, str]:
    numbers = {"%A": number, "%i": number, "%u": user, "%T": "RUNNING", "%t": "R", "%M": "1:00"}
    places = {"%N": "n1", "%P": "main", "%S": "1", "%e": "2", "%r": "None", "%B": "n1"}
    return {**dict.fromkeys(("%j", "%k", "%Z", "%a", "%o"), text), **numbers, **places} | (
        {"%j": name} if name else {}
    )


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with the jobs of two users; what cancels and changes is noted in calls."""
    folder = tmp_path / "bin"
    folder.mkdir()
    fakes = {
        "squeue": SQUEUE.format(python=sys.executable),
        "scancel": '#!/bin/sh\necho "scancel $*" >>calls\n',
        "scontrol": '#!/bin/sh\necho "scontrol $*" >>calls\n',
        "sleep": "#!/bin/sh\n",
    }
    for name, text in fakes.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (tmp_path / "calls").touch()
    jobs = [job(OWN, "eve", TEXT), job("13", "eve", "x", "corral-prove-1-slots0")]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    return tmp_path


def ran(machine: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    (machine / "functions.sh").write_text(program(name))
    return subprocess.run(
        ["sh", "-uc", '. ./functions.sh; "$@"', "sh", *words],
        cwd=machine,
        env={"PATH": f"{machine}/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def calls(machine: Path) -> list[str]:
    return (machine / "calls").read_text().splitlines()


def test_the_proof_cancels_its_own_jobs_by_user_and_name(machine: Path) -> None:
    assert ran(machine, "prove/jobs.sh", "jobs_clean", "corral-prove-1", "eve", "").returncode == 0
    names = ("corral-prove-1-slots0", "corral-prove-1-x")
    assert calls(machine) == [f"scancel -Q -u eve -n {name}" for name in names]


READERS = (
    ("gates/slurm.sh", ("node_free", "n1", "-1", "RUNNING")),
    ("state/members.sh", ("jobs_end", "-1", "-w", "n1")),
    ("gates/slurm.sh", ("jobs_cancel_all", "RUNNING")),
    ("prove/jobs.sh", ("jobs_cancel", "eve", "corral-prove-1")),
)


@pytest.mark.parametrize(("name", "words"), READERS, ids=[words[0] for _, words in READERS])
def test_no_job_is_named_that_is_none(name: str, words: tuple[str, ...], machine: Path) -> None:
    done = ran(machine, name, *words)
    assert FOREIGN not in done.stdout + done.stderr + "".join(calls(machine))
    assert not [call for call in calls(machine) if "bob" in call]


def test_a_budgets_end_changes_the_jobs_that_are_there(machine: Path) -> None:
    (machine / "program.sh").write_text(program("wind-down.sh"))
    done = subprocess.run(
        ["sh", "program.sh", "end", "n1", "1700000000"],
        cwd=machine,
        env={"PATH": f"{machine}/bin:{os.environ['PATH']}", "CORRAL_WIND_DOWN_KEPT": "./run/kept"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "running 2"
    assert FOREIGN not in "".join(calls(machine))


@pytest.mark.parametrize("column", ["%j", "%k", "%a", "%Z", "%o"])
def test_columns_with_a_users_text_need_a_mark(column: str) -> None:
    for names in (("%A", column), (column, "%A"), (column,)):
        with pytest.raises(CorralError, match="a user writes"):
            QueueColumns(names)
    with pytest.raises(CorralError, match="a user writes"):
        QueueColumns((column, "%A"), "m1")
    assert QueueColumns(("%A", column), "m1").format == f"%Am1{column}"


def test_so_do_those_of_accounting() -> None:
    for name in ("JobName", "Account", "Comment", "WorkDir", "SubmitLine"):
        with pytest.raises(CorralError, match="a user writes"):
            HistoryColumns(("JobIDRaw", name))


def line(label: str, account: str, name: str, mark: str) -> str:
    values = {"%i": label, "%A": label, "%T": "RUNNING", "%D": "1", "%C": "1", "%M": "1:00"}
    values |= {"%l": "1:00", "%V": "1", "%S": "1", "%a": account, "%j": name, "%u": "eve"}
    return mark.join(values.get(column, "x") for column in QUEUE)


@pytest.mark.parametrize("text", ["a\nb", "\n", "a\n\nb\n", f"a\n{line('7', 'a', 'b', '|')}"])
def test_a_line_end_in_an_account_or_name_hides_no_job_and_makes_none(text: str) -> None:
    """One such job made the queue unreadable for everybody, or went on in another's name."""
    mark = "m0123456789abcdef"
    for jobs in ([(text, "x"), ("lab", text)], [("lab", "y"), (text, text), ("lab", "z")]):
        answer = "".join(
            f"{line(str(at + 1), account, name, mark)}\n" for at, (account, name) in enumerate(jobs)
        )
        read = parse_queue(answer, mark)
        assert [(j.id, j.account, j.name) for j in read] == [
            (at + 1, account, name) for at, (account, name) in enumerate(jobs)
        ]


def test_an_account_makes_no_use_and_no_figure() -> None:
    mark = "m0123456789abcdef"
    good = ["9", "COMPLETED", "1", "2", "3", "4", "cpu=4", "cpu=4"]
    other = "|".join(["8", "COMPLETED", "1", "2", "3", "400", "cpu=400", "cpu=400", "lab"])
    answer = f"{mark.join([*good, f'lab{chr(10)}{other}'])}\n{mark.join([*good, 'lab'])}\n"
    assert [(run.label, run.account) for run in readable_runs(answer, mark)] == [("9", "lab")] * 2
    fields = [("RUNNING", 24), ("main", 64), ("eve", 64), ("cpu=4", 400), ("9", 12)]
    row = "".join(value.ljust(width) for value, width in fields)
    account = f"\n{'RUNNING'.ljust(24)}{'main'.ljust(23)}"
    row += account[:48] + "None".ljust(40) + "1700000000  " + "1700000001  "
    assert [job.id for job in parse_counted(row)] == [9]
