from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.hosts.quote import NOTHING, Script, filled, join, reread, sh

ANY = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))
HOSTILE = st.lists(
    st.sampled_from(
        [
            "'",
            '"',
            "\\",
            "$(id)",
            "`id`",
            "\n",
            " ",
            ";",
            "&",
            "|",
            "{x}",
            "{0}",
            "{{",
            "}}",
            "{",
            "%s",
            "\\n",
            "é",
            "*",
            "~",
            "#",
            "!",
            "-n",
            "\r",
            "\t",
            "\x1b",
            "{x.__class__}",
            "{y}",
        ]
    )
).map("".join)
TEXT = st.one_of(ANY, HOSTILE)
SHELL = settings(max_examples=60, deadline=None)


def printed(script: Script) -> str:
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.stderr == b""
    return done.stdout.decode("utf-8", "surrogateescape")


@SHELL
@given(TEXT)
def test_any_text_is_printed_as_it_is(text: str) -> None:
    assert printed(sh("printf %s {x}", x=text)) == text


@SHELL
@given(st.lists(TEXT, max_size=5))
def test_a_list_is_one_argument_each(parts: list[str]) -> None:
    script = sh("set -- {parts}; echo $#; for a; do printf '%s\\n' \"<$a>\"; done", parts=parts)
    assert printed(script) == f"{len(parts)}\n" + "".join(f"<{part}>\n" for part in parts)


@SHELL
@given(TEXT, TEXT)
def test_scripts_nest(inside: str, outside: str) -> None:
    inner = sh("printf %s {x}", x=inside)
    script = join([sh("a=$({inner}; echo .)", inner=inner), sh('printf %s "$a"{x}', x=outside)])
    assert printed(script) == f"{inside}.{outside}"


@SHELL
@given(TEXT)
def test_a_script_can_be_a_value_that_is_quoted_again(text: str) -> None:
    inner = sh("printf %s {x}", x=text)
    assert printed(sh("/bin/sh -c {inner}", inner=str(inner))) == text


def test_braces_in_a_value_are_no_fields() -> None:
    assert sh("a {x} b {y}", x="{y}", y="{x} {0} {y!r}") == "a '{y}' b '{x} {0} {y!r}'"


def test_braces_of_a_nested_script_are_no_fields() -> None:
    inner = sh('echo "${{HOME}}"; awk {prog}', prog="{print $1}")
    assert inner == "echo \"${HOME}\"; awk '{print $1}'"
    assert sh("( {inner} ) | {x}", inner=inner, x="y") == f"( {inner} ) | y"


def test_literal_braces() -> None:
    assert printed(sh('x=1; echo "${{x}}"')) == "1\n"


def test_numbers_and_paths() -> None:
    script = sh("{a} {b} {c}", a=7, b=0.5, c=Path("/a b"))
    assert script == "7 0.5 '/a b'"


def test_a_name_that_is_no_unicode_keeps_its_bytes() -> None:
    done = subprocess.run(["/bin/sh", "-c", sh("printf %s {x}", x="\udcff")], capture_output=True)
    assert done.stdout == b"\xff"


@pytest.mark.parametrize("value", [None, True, False, b"x", {"a": 1}, {1}, ["a", None]])
def test_values_that_are_never_meant(value: object) -> None:
    with pytest.raises(TypeError):
        sh("echo {x}", x=value)


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_text_that_no_argument_can_hold(value: str) -> None:
    with pytest.raises(ValueError):
        sh("echo {x}", x=value)


def test_a_field_without_value() -> None:
    with pytest.raises(KeyError):
        sh("echo {x}")


def test_what_is_done_to_a_script_as_to_text_is_no_script() -> None:
    script = sh("echo x")
    made: list[object] = [script + script, f"{script}", script.strip(), script * 2, script[1:]]
    assert not any(isinstance(text, Script) for text in made)


def test_made_by() -> None:
    assert join([]) == NOTHING == ""
    assert isinstance(join([sh("a"), sh("b")]), Script)
    assert join([sh("a"), sh("b")]) == "a\nb"
    assert isinstance(reread("x"), Script)


def test_a_filled_program_has_quoted_values_and_no_comment_at_its_top() -> None:
    text = filled("containers/enrol.sh", node="n0", mounts=["/a b", "/$(id)"], key="/k")
    assert text.startswith('if [ "$(cat /etc/hostname)" != n0 ]; then\n')
    assert "for m in '/a b' '/$(id)'; do\n" in text
    assert "@" not in text


def test_a_program_without_a_value_for_a_name_is_refused() -> None:
    with pytest.raises(KeyError, match="mounts"):
        filled("containers/enrol.sh", node="n0", key="/k")


SNIPPET = """\
from corral.hosts.quote import Script, join, sh
def f(name: str, count: int) -> None:
    sh("echo {x}", x=name)
    join([sh("a"), Script("b")], " && ")
    sh(f"echo {count}")  # 5
    sh("echo " + name)  # 6
    sh("echo %s" % name)  # 7
    Script(name)  # 8
    join([sh("a"), name])  # 9
    join([sh("a")], name)  # 10
    join([sh("a") + sh("b")])  # 11
"""


def test_the_type_checker_refuses_text_made_at_run_time(tmp_path: Path) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pyright",
            "--outputjson",
            "--pythonpath",
            sys.executable,
            str(file),
        ],
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )
    diagnostics = json.loads(done.stdout)["generalDiagnostics"]
    errors = {d["range"]["start"]["line"] + 1 for d in diagnostics if d["severity"] == "error"}
    assert errors == {5, 6, 7, 8, 9, 10, 11}
