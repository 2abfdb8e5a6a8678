from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import corral
from corral.errors import Code, CorralError
from corral.hosts.framing import Inquiry, Reports, Section
from corral.hosts.quote import NOTHING, Script, sh
from corral.hosts.transport import REMOTE, Frame

SHELL = settings(max_examples=40, deadline=None)
BYTES = st.one_of(
    st.binary(max_size=200).map(lambda b: b.replace(b"\0", b"")),
    st.sampled_from(
        [
            b"@@keys\n",
            b"\n@@ end",
            b"@@7f@driver\n",
            b"corral_answered 1 0\n",
            b"\ncorral-00000000000000000000000000000000 1 0\n",
            b"\n\ncorral- 1 0",
            b"\r\n\x85\x1c\n",
        ]
    ),
)


def printed(text: bytes) -> Script:
    return sh("printf %s {t}", t=text.decode("utf-8", "surrogateescape"))


def run(script: Script, shell: str = "/bin/sh") -> str:
    frame = Frame.of(script)
    done = subprocess.run([shell, "-c", REMOTE], input=frame.payload, capture_output=True)
    return frame.read("n", done.stdout.decode("utf-8", "replace"), "", done.returncode).stdout


@SHELL
@given(st.lists(st.tuples(BYTES, st.integers(0, 255)), min_size=1, max_size=6))
@example([(b"", 0), (b"\n", 1), (b"x", 0), (b"", 137)])
def test_any_answer_comes_back_unchanged(answers: list[tuple[bytes, int]]) -> None:
    asked = {
        f"q{n}": sh("{out}; ( exit {s} )", out=printed(text), s=status)
        for n, (text, status) in enumerate(answers)
    }
    inquiry = Inquiry(asked)
    assert inquiry.read(run(inquiry.script)) == {
        f"q{n}": Section(text.decode("utf-8", "replace"), status)
        for n, (text, status) in enumerate(answers)
    }


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4), st.data())
def test_a_cut_output_leaves_later_questions_unknown(texts: list[str], data: st.DataObject) -> None:
    asked = {str(n): NOTHING for n in range(len(texts))}
    inquiry = Inquiry(asked)
    output = f"\n{inquiry.word} 0 0\n" + "".join(
        f"{text}\n{inquiry.word} {n} 0\n" for n, text in enumerate(texts, 1)
    )
    cut = data.draw(st.integers(0, len(output)))
    sections = inquiry.read(output[:cut])
    assert list(sections) == list(asked)[: len(sections)]
    complete = [name for name, section in sections.items() if section.complete]
    assert complete == list(asked)[: len(complete)]
    assert len(sections) - len(complete) <= 1
    assert all(sections[name].text == texts[int(name)] for name in complete)
    assert set(sections.texts()) == set(complete)
    if cut == len(output):
        assert len(complete) == len(texts)


@given(st.binary(max_size=300))
def test_output_of_another_script_answers_nothing(output: bytes) -> None:
    inquiry = Inquiry({"a": NOTHING})
    other = Inquiry({"a": NOTHING}, word="corral-0")
    forged = f"\n{other.word} 0 0\nx\n{other.word} 1 0\n"
    assert inquiry.read(forged + output.decode("utf-8", "replace")) == {}
    assert other.read(forged) == {"a": Section("x")}


def test_a_script_that_is_killed_answers_what_came_before() -> None:
    inquiry = Inquiry({"a": sh("echo 1"), "b": sh("echo 2; kill -9 $$"), "c": sh("echo 3")})
    done = subprocess.run(["/bin/sh", "-c", inquiry.script], capture_output=True, text=True)
    sections = inquiry.read(done.stdout)
    assert sections == {"a": Section("1\n"), "b": Section("2\n", None)}
    assert sections.texts() == {"a": "1"}
    with pytest.raises(CorralError, match="no answer to 'b'") as caught:
        sections.require(["a", "b"], "node1", "reading state")
    assert (caught.value.code, caught.value.node) == (Code.PARSE_FAILED, "node1")
    assert sections.require(["a"], "node1", "reading state") == {"a": "1"}


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_fragments_share_variables_and_stand_for_themselves(shell: str) -> None:
    inquiry = Inquiry(
        {
            "empty": NOTHING,
            "comment": sh("# nothing"),
            "sets": sh("v=1"),
            "here": sh("cat <<E\n$v$w\nE"),
            "false": sh("false"),
            "sub": sh("( exit 3 )"),
        },
        before=sh("w=2"),
    )
    sections = inquiry.read(run(inquiry.script, shell))
    assert sections["here"] == Section("12\n")
    assert [section.status for section in sections.values()] == [0, 0, 0, 0, 1, 3]


def test_the_boundary_is_new_each_time_and_in_no_argument_or_environment() -> None:
    asked = {"seen": sh("cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' ' '")}
    first, second = Inquiry(asked), Inquiry(asked)
    assert first.word != second.word
    sections = first.read(run(first.script))
    assert sections["seen"].complete
    assert first.word not in sections["seen"].text


def test_lines_of_the_frame_are_no_answer() -> None:
    inquiry = Inquiry({"clock": NOTHING})
    assert inquiry.frames(f"{inquiry.word} 0 0")
    assert inquiry.frames("")
    assert not inquiry.frames("1795232588.6")


def test_reports_are_distinguished_from_all_other_lines() -> None:
    reports = Reports()
    output = subprocess.run(
        [
            "/bin/sh",
            "-c",
            sh("echo {m} done 1; echo x {m} no; echo done; echo {m}", m=reports.mark),
        ],
        capture_output=True,
        text=True,
    ).stdout
    assert reports.all(output) == ["done 1"]
    assert Reports().all(output) == []
    assert reports.read(f"{reports.word}x done") is None


def test_no_script_is_framed_by_a_fixed_word() -> None:
    """Users whose text may hold it forge an answer. Only what reads pasted logs knows one."""
    source = Path(corral.__file__).parent
    files = (f for kind in ("*.py", "*.sh") for f in source.rglob(kind))
    framed = {
        f.relative_to(source).as_posix() for f in files if re.search(r"(?<!\w)@@", f.read_text())
    }
    readers = {
        "prove/measure/measurement.py",
        "prove/fabric/benchmark_log.py",
        "prove/fabric/corral_benchmark.py",
    }
    assert {name for name in framed if not name.startswith("agents/benchmarks/")} == readers
    for name in framed - readers:  # a word for people who run it by hand; the caller gives another
        text = (source / name).read_text()
        assert text.count("@@") == text.count('os.environ.get("CORRAL_REPORT", "@@corral-")')
