"""The pages agree with the code: cluster files are good, commands parse, all error codes listed."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.api.page import token_store
from corral.cli.main import VERBS, load_verb
from corral.errors import CODES
from corral.prove.measure.gpu import model_of
from corral.roles.services import rental_guard
from corral.roles.slurm import auth_key, controller
from corral.spec.findings import Level
from corral.spec.load import READ_RULES, load, load_text
from corral.spec.models import Network
from corral.spec.providers import PROVIDERS
from corral.state import own_secret
from corral.state.system import directory
from tests.guide_blocks import SHELLS, Block, all_blocks, blocks_of, not_printed

REPO = Path(__file__).parents[2]
PAGES = [
    *(REPO / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((REPO / "docs").rglob("*.md")),
]


def name_of(file: Path) -> str:
    return str(file.relative_to(REPO))


def blocks(language: str) -> Iterator[tuple[Path, str]]:
    """Code blocks of one language, with their page."""
    fence = re.compile(rf"^( *)```{language}\n(.*?)^\1```$", flags=re.M | re.S)
    for page in PAGES:
        for block in fence.finditer(page.read_text()):
            yield page, block[2]


def commands() -> Iterator[tuple[Path, str]]:
    """Command lines of corral: lines of sh blocks, and pieces in backquotes."""
    lines = [(page, line) for page, text in blocks("sh") for line in text.splitlines()]
    for page in PAGES:
        quoted = re.findall(r"`(corral(?: [^`\n]+)?)`", page.read_text())
        lines += [(page, line) for line in quoted]
    for page, line in lines:
        words = shlex.split(line, comments=True)
        if words[:1] == ["corral"] and len(words) > 1:
            yield page, shlex.join(words)


@pytest.mark.parametrize(
    ("page", "text"),
    [(page, text) for page, text in blocks("yaml") if text.startswith("corral: v1")],
    ids=lambda v: name_of(v) if isinstance(v, Path) else "",
)
def test_cluster_files_in_pages_are_good(page: Path, text: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    assert load(file).findings == ()


@pytest.mark.parametrize("file", sorted((REPO / "examples").glob("*.yaml")), ids=name_of)
def test_examples_are_good(file: Path) -> None:
    assert load(file).findings == ()


def wrong_in(line: str, commands: dict[str, Any]) -> str:
    """What a command line has that corral has not; ``corral up`` need not be complete."""
    _, verb, *words = shlex.split(line)
    if verb == "VERB" or verb.startswith("-"):
        return ""
    if verb not in VERBS:
        return f"corral has no verb {verb}"
    if verb not in commands:
        commands[verb] = load_verb(verb)
    command = commands[verb]
    if words and words[0] in getattr(command, "below", {}):  # corral ui token
        command = command.below[words.pop(0)]
    if words and words[0] in getattr(command, "commands", {}):  # corral image list
        command = command.commands[words.pop(0)]
    known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
    own = words[: words.index("--")] if "--" in words else words
    options = [w for w in own if w.startswith("-")]
    # -N3 is -N with its value.
    wrong = [w for w in options if w.partition("=")[0] not in known and w[:2] not in known - {"--"}]
    return f"corral {verb} has no {wrong}" if wrong else ""


def test_commands_in_pages_parse() -> None:
    seen: dict[str, Any] = {}
    lines = sorted(set(commands()))
    assert len(lines) > 100
    wrong = [
        f"{name_of(page)}: {problem}" for page, line in lines if (problem := wrong_in(line, seen))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "line", ["corral upp", "corral up --nonsense", "corral image list --nonsense"]
)
def test_wrong_commands_are_seen(line: str) -> None:
    assert wrong_in(line, {})


def test_every_error_code_is_explained() -> None:
    page = (REPO / "docs/guide/troubleshooting.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \|", page, flags=re.M)
    assert dict((code, meaning.strip()) for code, meaning in rows) == {
        code.value: info.meaning for code, info in CODES.items()
    }


CURL = """\
#!/bin/sh
# Records its arguments, the files of headers that it is given, and its standard input.
for word in "$@"; do
  printf '%s\\n' "$word" >>"$RECORD/arguments"
  case $word in
    @-) cat >>"$RECORD/input" ;;
    @*) cat "${word#@}" >>"$RECORD/headers" ;;
  esac
done
case "$*" in
  */api/login) echo '{"csrf": "CSRF-SECRET"}' ;;
  */api/tokens) echo '{"token": "corral_SECRET"}' ;;
esac
"""


def test_the_example_of_functions_is_the_file_that_runs() -> None:
    """``tests/embedded/test_functions.py`` runs it."""
    text = (REPO / "examples/functions/run.py").read_text()
    assert f"```python\n{text}```" in (REPO / "docs/guide/jobs.md").read_text()


def test_examples_of_the_api_have_no_secret_in_a_command_line(tmp_path: Path) -> None:
    """Other users see arguments: the script that makes a token is run with a curl that records."""
    tools, temporary, record = (tmp_path / name for name in ("bin", "tmp", "record"))
    for folder in (tools, temporary, record):
        folder.mkdir()
    (tools / "curl").write_text(CURL)
    (tools / "scontrol").write_text("#!/bin/sh\necho SLURM_JWT=SLURM-SECRET\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    known = {"PATH": path, "TMPDIR": str(temporary), "RECORD": str(record)}
    texts = [text for page, text in blocks("bash") if page.name == "api.md"]
    assert len(texts) == 2
    for text in texts:
        subprocess.run(["bash", "-eu", "-c", text], cwd=tmp_path, env=known, check=True)
        (tmp_path / "ci.header").write_text("Authorization: Bearer corral_SECRET\n")
    arguments = (record / "arguments").read_text()
    assert arguments.count("api/") >= 9
    assert "SECRET" not in arguments
    assert "Bearer" not in arguments
    assert (record / "input").read_text().count('"token": "SLURM_JWT=SLURM-SECRET') == 2
    assert "X-CSRF-Token: CSRF-SECRET" in (record / "headers").read_text()
    token = tmp_path / "ci.token"
    assert token.read_text() == "corral_SECRET\n"
    assert token.stat().st_mode & 0o777 == 0o600
    assert not list(temporary.iterdir())


def test_shell_of_the_api_page_names_no_token() -> None:
    texts = [t for kind in ("sh", "bash", "console") for p, t in blocks(kind) if p.name == "api.md"]
    assert not re.findall(r"curl[^\n]*(?:Bearer|\$CORRAL_TOKEN|\$csrf|\$\{?slurm)", "".join(texts))


SEEDS = REPO / "docs/seeds.md"


def rows_of(text: str) -> dict[str, list[str]]:
    """The steps of each guide: the section's name, and its rows."""
    sections = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    return {
        name: [line for line in body.splitlines() if re.match(r"\| (?!step \|)", line)]
        for name, body in sections
    }


def test_the_counts_of_the_four_guides_are_those_of_their_rows() -> None:
    text = SEEDS.read_text()
    for name, rows in rows_of(text).items():
        missing = sum("**not yet**" in row for row in rows)
        partly = sum("**partly**" in row and "**not yet**" not in row for row in rows)
        counts = (len(rows), len(rows) - missing - partly, partly, missing)
        assert f"| {name} | {' | '.join(map(str, counts))} |" in text
        assert len(rows) > 20
        assert all(len(row.split(" | ")) in {3, 4} for row in rows)


def unknown_tests(text: str) -> list[str]:
    """Names of tests that are in no file of the row that names them."""
    unknown: list[str] = []
    for row in (row for rows in rows_of(text).values() for row in rows):
        files = [REPO / name for name in re.findall(r"`(tests/[\w/]+\.py)`", row)]
        source = "".join(file.read_text() for file in files)
        unknown += [n for n in re.findall(r"`(test_\w+)`", row) if f"def {n}(" not in source]
    return unknown


def test_tests_that_the_four_guides_name_exist() -> None:
    text = SEEDS.read_text()
    assert text.count("`test_") > 20
    assert unknown_tests(text) == []
    assert unknown_tests("## A\n| x | `tests/unit/test_docs.py` (`test_nothing`) | y |") == [
        "test_nothing"
    ]


def missing_files(text: str) -> list[str]:
    """Tests and programs of this repository that a page names by their path, and that are gone."""
    named = re.findall(r"`((?:tests|src|examples|benchmarks)/[\w./-]+)`", text)
    return [name for name in named if not (REPO / name.rstrip("/")).exists()]


def test_files_that_pages_name_exist() -> None:
    """Decisions and measurements are of their day."""
    now = [p for p in PAGES if not {"decisions", "measurements"} & set(p.parts)]
    assert sum("`tests/" in page.read_text() for page in now) > 5
    gone = {name_of(page): wrong for page in now if (wrong := missing_files(page.read_text()))}
    assert gone == {}
    assert missing_files("`tests/unit/test_gone.py`") == ["tests/unit/test_gone.py"]


README = (REPO / "README.md").read_text()
SCREEN_AND_A_HALF = 75


def table_after(text: str, head: str) -> list[list[str]]:
    """Rows of the table whose head begins so, without head and rule."""
    lines = text[text.index(head) :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_readme_is_short_and_shows_terminal_and_page() -> None:
    assert len(README.splitlines()) <= SCREEN_AND_A_HALF
    """Its height as shown is measured in Chromium (tests/docs)."""
    assert re.findall(r'<img src="([^"]+)" (?:width|height)="\d+" alt="[^"]+">', README) == [
        "docs/img/demo.svg",
        "docs/img/ui-cluster.png",
    ]


def test_the_readmes_comparison_is_that_of_the_guide() -> None:
    """Rows that both have; a row of the README may join two of the guide."""
    guide = (REPO / "docs/guide/what-corral-is.md").read_text()
    full = {row[0]: row[1:] for row in table_after(guide, "| | Corral | DeepOps")}
    # Corral, DeepOps, Cluster Toolkit, SkyPilot; the guide has one more before the last.
    columns = (0, 1, 2, 4)
    rows = table_after(README, "| | Corral | DeepOps")
    same = [name for name, *cells in rows if cells == [full.get(name, "-" * 5)[i] for i in columns]]
    joined = {"plan before apply, with prices", "clouds it rents from"}
    assert {name for name, *_ in rows} - set(same) == joined
    assert len(same) >= 4


def figures(text: str) -> set[float]:
    """Numbers of a text, with one digit behind the point."""
    numbers = re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", text)
    return {round(float(number.replace(",", "")), 1) for number in numbers}


def test_figures_of_the_readme_are_in_their_sources() -> None:
    rows = table_after(README, "| measured |")
    assert len(rows) >= 3
    for _, figure, peers, source in rows:
        link = re.search(r"\(([^)#]+)", source)
        assert link is not None
        written = (REPO / link[1]).read_text()
        assert figures(f"{figure} {peers}") <= figures(written)
    assert not figures("0.75 s, torchrun 422,731") <= figures("0.64 s, 422,730")


DAY = re.compile(r"\b2026-\d\d-\d\d\b")
MEASURED = {
    "27 actions on 8 nodes": r"\+0 ms \| nothing to do",
    "nothing to a proven cluster": "`corral up` from nothing to all checks passed, image there",
    "tokens/s of `corral run`": r"mean \|",
}
"""By the beginning of the README's row: rows of the same measurement in what it cites."""


def runs_of(row: str) -> list[tuple[str, str]]:
    """Each run of a measurement with its day, the newest last: benchmarks, and all records."""
    pages = [REPO / "benchmarks/README.md", *sorted((REPO / "docs/measurements").glob("*.md"))]
    runs: list[tuple[str, str]] = []
    for page in pages:
        day = "".join(DAY.findall(page.name))
        rest = page.read_text()
        if row == "tokens/s of `corral run`" and "against bare torchrun" not in rest:
            continue
        for line in rest.splitlines():
            # The day of a section, or of the paragraph before a table.
            days = [] if DAY.search(page.name) or line.startswith("|") else DAY.findall(line)
            day = days[0] if days else day
            if re.match(rf"\| {MEASURED[row]}", line):
                runs.append((day, line))
    return sorted(runs, key=lambda run: run[0])


def test_figures_of_the_readme_are_those_of_the_newest_run() -> None:
    """With the day in the table; of runs on one day the later one in the page."""
    rows = table_after(README, "| measured |")
    assert len(rows) == len(MEASURED)
    for name, figure, _, source in rows:
        [known] = [row for row in MEASURED if name.startswith(row)]
        newest, line = runs_of(known)[-1]
        assert f"[{newest}]" in source, known
        assert figures(figure) <= figures(line), known
    assert len(runs_of("nothing to a proven cluster")) > 2
    assert len(runs_of("tokens/s of `corral run`")) > 1


UNLINTED = re.compile(r"<!-- not linted: [^\n]{10,} -->\n+ *\Z")
GROUPS = "groups: [{name: gpu, provider: ssh, nodes: n0, addresses: 10.0.0.1}]"
REST = ("corral: v1", "name: lab", GROUPS)
OF_THE_FORMAT = READ_RULES.keys() - {"missing-field"}
"""What a part shows alone; a missing field may be in the rest."""


def fragments(page: Path) -> Iterator[tuple[int, str]]:
    """YAML of a page that is a part of a cluster file: its line and text; not what is marked."""
    text = page.read_text()
    for block in re.finditer(r"^( *)```yaml[^\n]*\n(.*?)^\1```$", text, flags=re.M | re.S):
        if not block[2].startswith("corral: v1") and not UNLINTED.search(text[: block.start()]):
            yield text[: block.start()].count("\n") + 1, textwrap.dedent(block[2])


def faults(fragment: str) -> list[str]:
    """What the format refuses in a part of a cluster file, with the rest made up.

    What only the complete file shows, such as a group that the part names, is not judged.
    """
    own = set(re.findall(r"^(\w+):", fragment, flags=re.M))
    rest = [line for line in REST if line.partition(":")[0] not in own]
    findings = load_text("\n".join([*rest, fragment]), "page.yaml").findings
    judged = [f for f in findings if f.level is Level.ERROR and f.rule in OF_THE_FORMAT]
    return [str(f) for f in judged if not re.search(r'is "[^"]*\.\.\.', f.message)]


def test_parts_of_cluster_files_in_pages_have_the_format() -> None:
    parts = [(page, line, text) for page in PAGES for line, text in fragments(page)]
    assert len(parts) > 35
    wrong = [f"{name_of(p)}:{n}: {fault}" for p, n, text in parts for fault in faults(text)]
    assert not wrong, "\n".join(wrong)
    assert faults("slurm: {x12: true}\n")
    assert faults("budget: {total: many}\n")


def test_python_and_shell_in_pages_are_read() -> None:
    for _, text in blocks("python"):
        ast.parse(text)
    console = [line for _, text in blocks("console") for line in text.splitlines()]
    shown = [line[2:].removeprefix("sudo ") for line in console if line.startswith("$ ")]
    lines = [line for line in shown if line.startswith("corral ")]
    assert len(lines) > 8
    assert [wrong for line in lines if (wrong := wrong_in(line.split(" >")[0], {}))] == []


BLOCKS = all_blocks()
TEST = re.compile(r"`(tests/[\w/]+\.py)`")
VERB = re.compile(r"^(?:\$ )?(?:sudo )?corral ([a-z]+)", re.M)


def unmarked(blocks: Iterable[Block]) -> list[str]:
    """Blocks of commands without a statement who runs them."""
    return [str(block) for block in blocks if not (block.run_by or len(block.why) > 12)]


def test_each_block_of_commands_is_run_or_marked() -> None:
    assert len(BLOCKS) > 100
    assert unmarked(BLOCKS) == []
    text = "```sh\ncorral up\n```\n\n<!-- not run: because -->\n```sh\ncorral up\n```\n"
    assert unmarked(blocks_of("x.md", text)) == ["x.md:1", "x.md:6"]


def test_the_test_that_a_block_names_runs_it() -> None:
    """By the page's name, or by ``run_by``."""
    for block in (block for block in BLOCKS if block.run_by):
        source = (REPO / block.run_by).read_text()
        taken = block.language in SHELLS or f'run_by(__file__, "{block.language}")' in source
        assert Path(block.page).name in source or ("run_by(__file__" in source and taken), str(
            block
        )
    assert sum(bool(block.run_by) for block in BLOCKS) > 30


def elsewhere(block: Block) -> list[str]:
    """Verbs of a block that is not run, and that no test has that it names."""
    sources = "".join((REPO / name).read_text() for name in TEST.findall(block.why))
    verbs = {} if not sources else dict.fromkeys(VERB.findall(block.text))
    # Also a part of a name: run_bench.
    return [v for v in verbs if not re.search(rf"(?<![a-zA-Z]){v}(?![a-zA-Z])", sources)]


def test_reasons_name_tests_of_the_same_commands() -> None:
    """At least one verb of each block: what is run in passing may be in another test."""
    named = [block for block in BLOCKS if TEST.search(block.why)]
    assert len(named) > 60
    for block in named:
        verbs = set(VERB.findall(block.text))
        assert not verbs or len(elsewhere(block)) < len(verbs), str(block)
    lost = Block("x.md", 1, "corral backup x\n", "", "", "`tests/growth.py`")
    assert elsewhere(lost) == ["backup"]
    for verb, missing in (("dedent", []), ("deden", ["deden"])):
        block = Block("x.md", 1, f"corral {verb} x\n", "", "", "`tests/guide_blocks.py`")
        assert elsewhere(block) == missing


def without_outcome(blocks: Iterable[Block]) -> list[str]:
    """Blocks that are run, and whose output is neither shown nor described."""
    printing = (b for b in blocks if b.language in SHELLS or "print(" in b.text)
    return [str(b) for b in printing if b.run_by and not (b.shown or b.prints)]


def test_each_block_that_is_run_has_its_outcome() -> None:
    """Programs that print nothing have it in the caption: they succeed."""
    assert without_outcome(BLOCKS) == []
    text = "<!-- run by: tests/x.py -->\n```sh\nls\n```\n"
    assert without_outcome(blocks_of("x.md", text)) == ["x.md:2"]
    assert without_outcome(blocks_of("x.md", f"{text}\n```text\na\n```\n")) == []


def test_a_line_that_a_page_shows_may_have_other_numbers() -> None:
    assert not_printed("job ...: done, ... s\na  b\n", "x\njob 12: done, 2.0 s\n a b\n") == []
    assert not_printed("job ...: done\n", "job 12: failed\n") == ["job ...: done"]


def in_each_run(test: Path) -> bool:
    """False for files whose tests are all slow; of tests/mesh one is not (its conftest.py)."""
    slow = re.search(r"^pytestmark = pytest\.mark\.slow$", test.read_text(), re.M)
    return test.parent.name != "mesh" and not slow


def test_what_a_test_replaced_is_in_the_mark() -> None:
    """A page that is run with another curl, or up to a line, does not claim to run as it is."""
    [block] = blocks_of("x.md", "<!-- run by: tests/x.py; with another curl -->\n```sh\nls\n```\n")
    assert (block.run_by, block.but) == ("tests/x.py", "with another curl")
    marked = {f"{b.page} {b.run_by}" for b in BLOCKS if b.but}
    assert "docs/guide/api.md tests/unit/test_docs.py" in marked
    as_they_are = [b for b in BLOCKS if b.run_by and not b.but]
    replaced = re.compile(r"\b(?:text|block\.text)\.replace\(|re\.sub\([^)]*block\.text")
    assert [str(b) for b in as_they_are if replaced.search((REPO / b.run_by).read_text())] == []
    slow = [b for b in BLOCKS if b.run_by and not in_each_run(REPO / b.run_by)]
    assert {b.page for b in slow} == {"docs/guide/train-across-clouds.md"}
    assert [str(b) for b in slow if "slow test" not in b.but] == []
    assert not [
        str(b)
        for b in as_they_are
        if re.search(r"\bcurl\b|^(scontrol token|export) ", b.text, re.M)
    ]


def test_the_page_about_secrets_names_where_each_is() -> None:
    text = (REPO / "SECURITY.md").read_text()
    places = (auth_key.MUNGE_KEY, auth_key.SLURM_KEY, controller.JWT_KEY, rental_guard.KEYS)
    places += (own_secret.FOLDER, directory.PASSWORD, token_store.FILE, "notebook.token")
    assert [place for place in places if f"`{place}`" not in text] == []
    assert "opens no firewall" not in text
    assert Network.model_fields["firewall"].default == "open", "the page has it so"


SUPPORT = REPO / "docs/guide/support.md"
STATES = ("in CI", "slow test", "by hand", "from documents", "by nobody", "no")


def rows_of_support() -> list[str]:
    text = SUPPORT.read_text()
    return [r for r in text.splitlines() if re.match(r"\| (?!version|provider|feature|\|)", r)]


def test_each_row_of_the_support_page_has_a_state() -> None:
    rows = rows_of_support()
    assert len(rows) > 40
    assert [row for row in rows if not any(state in row for state in STATES)] == []
    assert [row for row in rows if re.search(r"\btested\b(?! by| with)", row)] == []


def test_the_support_page_has_slow_tests_as_slow() -> None:
    """``in CI`` behind a test that no CI run takes would be untrue; at .ci/part 0 it takes none."""
    if (REPO / ".ci/part").read_text().strip() == "0":
        assert "CI takes no slow tests now" in SUPPORT.read_text()
    for row in rows_of_support():
        named = [REPO / name for name in re.findall(r"`(tests/[\w/]+\.py)`", row)]
        slow = [f for f in named if not in_each_run(f) or is_slow_there(f)]
        assert not slow or "slow test" in row, row
        undated = re.search(r"by hand(?!, 2026|.*without a record|: the same records)", row)
        assert not undated or "measurements/" in row, row


def is_slow_there(test: Path) -> bool:
    """Of tests/machines each run takes test_lab alone (its conftest.py)."""
    return test.parent.name == "machines" and test.name != "test_lab.py"


def test_days_of_the_support_page_have_a_note_or_a_record() -> None:
    """Of records: the day in their name."""
    for link in re.findall(r"\(\.\./measurements/([\w.-]+)\)", SUPPORT.read_text()):
        assert (REPO / "docs/measurements" / link).is_file(), link


RECORDS = {file.name: file.read_text() for file in (REPO / "docs/measurements").glob("*.md")}
NEVER = re.compile(r"\b(?:[Nn]ever|by nobody)\b")


def contradicted(rows: Iterable[str], records: dict[str, str]) -> list[str]:
    """Rows that state "never" of something that the title of a section of a record names.

    A row that links the newest such record has been compared with it.
    """
    wrong: list[str] = []
    for row in rows:
        feature = row.split("|")[1]
        names = [n for n in re.findall(r"\b[A-Z]\w+", feature) if n not in {"Debian", "Ubuntu"}]
        known = [
            file
            for file, text in sorted(records.items())
            if any(re.search(rf"^#+ .*\b{name}\b", text, re.M) for name in names)
        ]
        if NEVER.search(row) and known and known[-1] not in row:
            wrong.append(feature.strip())
    return wrong


def test_what_the_support_page_states_as_never_done_is_in_no_record() -> None:
    assert contradicted(rows_of_support(), RECORDS) == []
    row = "| containers of jobs (Enroot, Pyxis) | in CI. Never with a GPU |"
    assert contradicted([row], RECORDS) == ["containers of jobs (Enroot, Pyxis)"]
    assert not re.search(r"Never with a GPU", SUPPORT.read_text())


def test_the_page_about_the_cluster_file_names_each_provider() -> None:
    text = (REPO / "docs/guide/cluster-file.md").read_text()
    assert [name for name in PROVIDERS if f"| `{name}` |" not in text] == []


def test_gpus_without_peaks_are_named_on_the_page_of_benchmarks() -> None:
    text = " ".join((REPO / "docs/guide/benchmarks.md").read_text().split())
    assert "RTX PRO 6000 Server and Max-Q editions, RTX PRO 5000, 4500, 4000 and 2000" in text
    for name in ("6000 Blackwell Server Edition", "6000 Blackwell Max-Q Workstation Edition"):
        assert model_of(f"NVIDIA RTX PRO {name}") is None
    for name in ("5000", "4500", "4000", "2000"):
        assert model_of(f"NVIDIA RTX PRO {name} Blackwell") is None
    assert model_of("NVIDIA RTX PRO 6000 Blackwell Workstation Edition") is not None
