"""Values of ``--env`` are often tokens: none is in an argument, which all users see in ``ps``."""

from __future__ import annotations

import asyncio
import re
import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from corral.errors import CorralError
from corral.events import ignore
from corral.hosts.quote import sh
from corral.jobs.batch import environment
from corral.jobs.batch.script import Place, batch_script
from corral.jobs.explanation import explain, shell
from corral.jobs.follow import as_user_by_stdin
from corral.jobs.model import JobSpec
from tests.unit.jobs.conftest import FakeSlurm
from tests.unit.jobs.test_submit import spec

ARGUMENTS = 'cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " " >"$FAKE/arguments"'


@pytest.fixture
def token() -> str:
    return f"hf_{secrets.token_hex(12)}"


def program(slurm: FakeSlurm, name: str, text: str) -> None:
    """One more program of the fake controller."""
    file = slurm.folder.parent / "bin" / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def arguments(slurm: FakeSlurm) -> str:
    """All argument lists of this machine while the program ran."""
    text = (slurm.folder / "arguments").read_text()
    assert "pytest" in text
    return text


def terminal(slurm: FakeSlurm, env: Mapping[str, str]) -> str:
    asked = JobSpec(script="shell", env=dict(env))
    return str(asyncio.run(shell(slurm.fleet, "node0", spec(slurm), asked)))


def test_a_terminals_variables_are_in_a_file_of_its_user_alone(
    slurm: FakeSlurm, token: str
) -> None:
    program(slurm, "salloc", f'{ARGUMENTS}\nprintf %s "$HF_TOKEN" >"$FAKE/token"')
    value = f"{token} 'it\nis'"
    text = terminal(slurm, {"HF_TOKEN": value})
    assert token not in text
    (path,) = set(re.findall(r"/tmp/corral-variables\.\w{10}", text))
    folder = Path(path)
    assert (folder.stat().st_mode & 0o777, (folder / "variables").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )
    subprocess.run(["sh", "-c", text], check=True, timeout=60)
    assert (slurm.folder / "token").read_text() == value
    assert token not in arguments(slurm)
    assert not folder.exists(), "read once"
    again = subprocess.run(["sh", "-c", text], capture_output=True, text=True, timeout=60)
    assert again.returncode != 0
    assert "the variables of --env are not there any more: run the command again" in again.stderr


def test_without_variables_nothing_is_written(slurm: FakeSlurm) -> None:
    assert "variables" not in terminal(slurm, {})


def test_variables_that_cannot_be_written_name_the_way_out(slurm: FakeSlurm) -> None:
    program(slurm, "mktemp", "exit 1")
    with pytest.raises(CorralError, match="sending the variables of --env") as caught:
        terminal(slurm, {"HF_TOKEN": "x"})
    assert caught.value.hint == "run it without --env and set the variables in the terminal"


def test_what_explains_a_job_gets_its_variables_by_a_pipe(slurm: FakeSlurm, token: str) -> None:
    text = f'{ARGUMENTS}; printf %s {token} >"$FAKE/token"; cat'
    script = as_user_by_stdin("corral", sh("sh {file}; exit 5", file=str(slurm.folder / "inner")))
    (slurm.folder / "inner").write_text(text)
    ended = subprocess.run(["sh"], input=str(script), text=True, timeout=60)
    assert ended.returncode == 5
    assert (slurm.folder / "token").read_text() == token


def test_and_explain_has_them_in_no_argument(slurm: FakeSlurm, token: str) -> None:
    program(slurm, "ip", f"{ARGUMENTS}")
    job = JobSpec(script="train.py", env={"HF_TOKEN": token})
    rows = asyncio.run(explain(slurm.fleet, "node0", spec(slurm), job, {"node0": "127.0.0.1"}))
    assert (token, "yours, by --env or the job file") in {(r.value, r.reason) for r in rows}
    assert token not in arguments(slurm)


def test_pips_settings_are_in_no_argument(slurm: FakeSlurm, token: str) -> None:
    """An index's address has a password in it: https://USER:PASSWORD@HOST."""
    program(
        slurm,
        "python3",
        f"""case "$*" in
  -c*) echo py3.11-x86_64 ;;
  "-m venv --without-pip "*) mkdir -p "$4/bin" ;;
  *--version) ;;
  *" install "*) {ARGUMENTS}
    printf '%s\\n' "$PIP_INDEX_URL" "$PIP_TIMEOUT" "${{HF_TOKEN-}}" >"$FAKE/settings"
    while [ "$1" != -r ]; do shift; done
    cat "$2" >"$FAKE/lock" ;;
esac""",
    )
    url = f"https://ada:{token}@wheels.example/simple"
    env = {"PIP_INDEX_URL": url, "PIP_TIMEOUT": "it's\n9", "HF_TOKEN": token}
    text = b"numpy==2.1.0\n"
    mount = str(slurm.shared)
    work = environment.ensure(
        slurm.fleet, "node0", "corral", mount=mount, text=text, env=env, emit=ignore
    )
    made = asyncio.run(work)
    assert made.startswith(f"{slurm.shared}/corral/envs/corral/")
    assert (slurm.folder / "settings").read_text() == f"{url}\nit's\n9\n\n"
    assert (slurm.folder / "lock").read_bytes() == text
    assert token not in arguments(slurm)


def test_a_containers_ranks_read_them_from_the_jobs_folder(token: str) -> None:
    """The text of a rank is a word of srun's, which stays in ``ps`` as long as the job runs."""
    job = JobSpec(script="train.py", container="ubuntu", env={"HF_TOKEN": token})
    text = str(batch_script(job, Place("/shared/x", "/shared/x/code/train.py", "main")))
    rank = text.partition("<<'END_OF_RANK'")[2].partition("END_OF_RANK")[0]
    node = text.partition("<<'END_OF_NODE'")[2].partition("END_OF_NODE")[0]
    assert rank
    assert node
    assert token not in rank + node
    assert '. "$CORRAL_JOB_FOLDER/variables.env"' in rank
    (line,) = (line for line in text.splitlines() if "variables.env" in line and token in line)
    assert line.startswith("(umask 077 && printf ")
