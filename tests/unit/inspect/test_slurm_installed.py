"""Which Slurm a machine has, or is offered: the real shell, with stand-in programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from corral.inspect import slurm
from corral.inspect.question import Question, inquiry

VERSION, CANDIDATE, _, PMIX = slurm.INSTALLED
OFFERED = "#!/bin/sh\necho '  Candidate: 24.11.5-4'\n"


@pytest.mark.parametrize(
    "questions",
    [(VERSION, CANDIDATE), (CANDIDATE, VERSION)],
    ids=["in order", "the other way round"],
)
@pytest.mark.parametrize(
    ("slurmd", "expected"),
    [
        ("#!/bin/sh\necho slurm-wlm 24.11.5\n", ["slurm-wlm 24.11.5"]),
        (None, ["  Candidate: 24.11.5-4"]),
        # dpkg was in the middle of it: the program is there, its library is not.
        (
            "#!/bin/sh\necho libslurmfull.so: cannot open >&2; exit 127\n",
            ["  Candidate: 24.11.5-4"],
        ),
    ],
    ids=["installed", "offered", "half unpacked"],
)
def test_a_machine_reports_what_it_has_or_is_offered(
    slurmd: str | None,
    expected: list[str],
    questions: tuple[Question[str], ...],
    tmp_path: Path,
) -> None:
    """Neither question needs what the shell of the other found."""
    asked = inquiry(questions)
    for name, text in {"apt-cache": OFFERED, "slurmd": slurmd}.items():
        if text is not None:
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
    (tmp_path / "grep").symlink_to("/usr/bin/grep")
    done = subprocess.run(
        ["/bin/sh", "-c", asked.script],
        env={"PATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    answers = asked.answers(done.stdout, "n", "asking")
    assert [text for text in answers.values() if text] == expected


@pytest.mark.parametrize(
    ("slurmd", "depends", "expected"),
    [
        ("echo slurm-wlm 24.11.5", "  Depends: libpmix2t64", False),  # the plugin is not there
        (None, "  Depends: libpmix2t64", True),
        (None, "  Depends: libmunge2", False),
    ],
    ids=["installed without it", "offered", "offered without it"],
)
def test_pmix_is_of_the_slurm_that_is_there_else_of_the_one_that_comes(
    slurmd: str | None, depends: str, expected: bool, tmp_path: Path
) -> None:
    asked = inquiry((PMIX,))
    for name, text in {"apt-cache": f"echo '{depends}'", "slurmd": slurmd}.items():
        if text is not None:
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
    (tmp_path / "grep").symlink_to("/usr/bin/grep")
    done = subprocess.run(
        ["/bin/sh", "-c", asked.script],
        env={"PATH": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert PMIX.read(asked.answers(done.stdout, "n", "asking")) is expected
