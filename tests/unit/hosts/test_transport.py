from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from corral.errors import Code, CorralError
from corral.hosts.quote import Script, reread, sh
from corral.hosts.transport import MAX_LINE, REMOTE, Frame, Lines, Result, check

SHELL = settings(max_examples=40, deadline=None)
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))


def ran(script: Script, stdin: bytes = b"", *, shell: str = "/bin/sh") -> Result:
    frame = Frame.of(script, stdin)
    done = subprocess.run([shell, "-c", REMOTE], input=frame.payload, capture_output=True)
    out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    return frame.read("node0", out, err, done.returncode)


@SHELL
@given(TEXT, TEXT, st.integers(0, 255))
@example("\n", "", 0)
@example("", "\n\n", 255)
@example("x", "y\n", 1)
def test_all_that_is_printed_comes_back(out: str, err: str, status: int) -> None:
    script = sh("printf %s {o}; printf %s {e} >&2; exit {s}", o=out, e=err, s=status)
    result = ran(script)
    assert (result.stdout, result.stderr, result.status) == (out, err, status)


@SHELL
@given(st.binary(max_size=5000))
@example(b"\0\n\xff")
@example(b"")
@example(b"no newline")
def test_stdin_is_the_scripts_own(data: bytes) -> None:
    result = ran(sh("od -An -v -tx1"), data)
    assert bytes.fromhex("".join(result.stdout.split())) == data


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize(
    ("text", "status", "stdout"),
    [
        ("exit 3", 3, ""),
        ("", 0, ""),
        ("# only a comment", 0, ""),
        ("echo a; exec >&-; echo b", None, "a\n"),
        ("exec >/dev/null; echo b", 0, ""),
        ("echo a; )", None, ""),
        ("if true", None, ""),
        ("echo 'open", None, ""),
        ("cat <<E\nline", None, None),
        ("false", 1, ""),
        ("set -e; false; echo no", 1, ""),
        ("trap 'echo bye' EXIT; exit 4", 4, "bye\n"),
        ("cd /; unset PATH; exit 5", 5, ""),
        ("sh -c 'kill -9 $$'", 137, ""),
        ("return 6 2>/dev/null || exit 6", 6, ""),
    ],
)
def test_scripts_that_try_to_get_out(
    shell: str, text: str, status: int | None, stdout: str | None
) -> None:
    result = ran(reread(text), shell=shell)
    if status is None:
        assert result.status in range(256)
    else:
        assert result.status == status
    if stdout is not None:
        assert result.stdout == stdout


def test_a_syntax_error_is_the_scripts_failure_and_not_the_connections() -> None:
    result = ran(reread("echo before\n)"))
    assert result.status == 2
    assert "yntax error" in result.stderr


def test_the_marker_in_a_scripts_text_or_output_changes_nothing() -> None:
    frame = Frame.of(sh("cat"), b"")
    noise = f"\n{frame.end} 0\n{frame.begin}\n{frame.token}"
    assert ran(sh("printf %s {x}", x=noise)).stdout == noise


def test_even_its_own_token_printed_by_the_script_does_not_end_it_early() -> None:
    frame = Frame.of(sh("true"))
    stdout = f"{frame.begin}\na\n{frame.end} 0\nmore\n{frame.end} 7\n"
    result = frame.read("node0", stdout, "", 0)
    assert (result.status, result.stdout) == (7, f"a\n{frame.end} 0\nmore")


@pytest.mark.parametrize(
    "stdout", ["", "text\n", "{begin}\ntext", "{begin}\ntext\n{end}", "{begin}\n\n{end} ",
               "{end} 0\n", "{begin}\n\n{end} 1", "{begin}\n\n{end} x\n"]
)  # fmt: skip
def test_without_a_complete_sentinel_it_never_succeeds(stdout: str) -> None:
    frame = Frame.of(sh("true"))
    text = stdout.format(begin=frame.begin, end=frame.end)
    with pytest.raises(CorralError) as caught:
        frame.read("node0", text, "lost", 0)
    assert caught.value.code is Code.UNREACHABLE
    assert caught.value.node == "node0"
    assert caught.value.tail == "lost"


def test_noise_of_login_files_is_cut_off() -> None:
    frame = Frame.of(sh("echo x"))
    result = frame.read("node0", f"motd\nhalf{frame.begin}\nx\n\n{frame.end} 0\n", "", 0)
    assert result.stdout == "x\n"


def test_surroundings_are_the_same_everywhere() -> None:
    result = ran(
        sh('echo "$LC_ALL $(umask)"; case $PATH in */sbin*) echo sbin;; esac; echo "$s$n"')
    )
    assert result.stdout == "C 0022\nsbin\n\n"


def test_two_frames_differ() -> None:
    assert Frame.of(sh("true")).token != Frame.of(sh("true")).token


def test_a_background_process_may_outlive_the_script() -> None:
    result = ran(sh("sleep 0 >/dev/null 2>&1 & echo x"))
    assert result.stdout == "x\n"


def cut(stdout: str, frame: Frame, sizes: list[int]) -> tuple[list[str], Lines]:
    seen: list[str] = []
    lines = Lines(frame, seen.append)
    data = stdout.encode()
    for size in [*sizes, len(data)]:
        lines.feed(data[:size])
        data = data[size:]
    return seen, lines


@given(TEXT, st.lists(st.integers(1, 40), max_size=30))
@example("", [])
@example("\n", [1, 1, 1])
@example("é\n", [30, 1, 1])
@example("a\n\n", [])
def test_lines_are_those_of_the_output(text: str, sizes: list[int]) -> None:
    frame = Frame.of(sh("true"))
    seen, lines = cut(f"noise\n{frame.begin}\n{text}\n{frame.end} 0\n", frame, sizes)
    output = text.split("\n")
    assert seen == (output[:-1] if not output[-1] else output)
    assert lines.began
    assert lines.ended


def test_lines_are_given_as_soon_as_they_are_complete() -> None:
    frame = Frame.of(sh("true"))
    seen, lines = cut(f"{frame.begin}\none\ntw", frame, [])
    assert seen == ["one"]
    assert lines.began
    assert not lines.ended


@pytest.mark.parametrize("length", [MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, 5 * MAX_LINE])
@pytest.mark.parametrize("end", ["", "\n"])
def test_huge_lines_come_in_pieces(length: int, end: str) -> None:
    frame = Frame.of(sh("true"))
    text = f"{frame.begin}\n{'x' * length}{end}\n{frame.end} 0\n"
    seen, lines = cut(text, frame, [1000] * 500)
    assert "".join(seen) == "x" * length
    assert max(map(len, seen)) <= MAX_LINE + 1000
    assert lines.ended


def test_huge_noise_before_the_script_is_not_kept() -> None:
    frame = Frame.of(sh("true"))
    seen, lines = cut(
        f"{'n' * 10 * MAX_LINE}{frame.begin}\nx\n\n{frame.end} 0\n", frame, [999] * 900
    )
    assert seen == ["x"]
    assert lines.ended


def test_check() -> None:
    good = Result("node0", 0, "out", "")
    assert check(good, "asking") is good
    with pytest.raises(CorralError) as caught:
        check(Result("node0", 3, "out\n", "a\nb\n"), "asking", hint="ask again")
    error = caught.value
    assert (error.code, error.node, error.status, error.tail, error.hint) == (
        Code.COMMAND_FAILED,
        "node0",
        3,
        "a\nb",
        "ask again",
    )
    assert Result("node0", 3, "x\n" * 50, " ").tail.count("x") == 20
