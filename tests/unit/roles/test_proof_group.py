"""Collectives of the scheduled proof: who is slow, found by the round's own shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from corral.roles import proof
from corral.roles.site import Site
from corral.spec.proof import ScheduledProof
from tests.unit.roles.test_cluster import laptop, site

TEXT = proof.text("proof-round.sh")
NARROW = TEXT[TEXT.index("rate_of() {") : TEXT.index("# judge NODE")]
JUDGE = TEXT[TEXT.index("judge() {") : TEXT.index("remember() {")]
# Nodes of a list reach 10 GB/s together; 1 where a slow one is among them; 3 over the trunk a|b.
TOGETHER = """
together() {
  r=10
  for s in $SLOW; do case ",$1," in *,$s,*) r=1 ;; esac; done
  case $1 in *a1*b1*) [ -z "$TRUNK" ] || r=3 ;; esac
  echo "$1" >>"$work/measured"
  echo "figure all_reduce_gb_s $r" >"$work/$1"
}
"""


def run(text: str, folder: Path, **env: str) -> str:
    shell = shutil.which("dash") or "/bin/sh"
    done = subprocess.run(
        [shell, "-u", "-c", f"work={folder}\n{text}"],
        capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin", **env},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize("slow", ["a1", "a3", "b2"])
def test_one_slow_node_of_eight(tmp_path: Path, slow: str) -> None:
    nodes = "a1,a2,a3,a4,b1,b2,b3,b4"
    said = run(f"{TOGETHER}{NARROW}narrow {nodes}", tmp_path, SLOW=slow, TRUNK="")
    assert said == f"{slow} is slow with every other node (1 of 10 GB/s)"


def test_one_of_three(tmp_path: Path) -> None:
    said = run(f"{TOGETHER}{NARROW}narrow a1,a2,a3", tmp_path, SLOW="a2", TRUNK="")
    assert said == "a2 is slow with every other node (1 of 10 GB/s)"
    assert (tmp_path / "measured").read_text().split() == ["a1,a2", "a1,a3", "a2,a3"]


def test_what_joins_two_good_halves(tmp_path: Path) -> None:
    said = run(f"{TOGETHER}{NARROW}narrow a1,a2,b1,b2", tmp_path, SLOW="", TRUNK="1")
    assert (
        said
        == "a1,a2 (10 GB/s) and b1,b2 (10 GB/s) are slow only together: look at what joins them"
    )


def test_of_two_nobody_can_say(tmp_path: Path) -> None:
    said = run(f"{TOGETHER}{NARROW}narrow a1,a2", tmp_path, SLOW="a1", TRUNK="")
    assert said == "a1,a2: with two nodes nobody can say which"


@pytest.mark.parametrize(
    ("figures", "due"),
    [
        ("figure all_reduce_gb_s 8\nfigure all_reduce_wrong 0", ""),
        ("figure all_reduce_gb_s 6\nfigure all_reduce_wrong 0", "all_reduce_gb_s is 6, it had 10"),
        ("figure all_reduce_gb_s 10\nfigure all_reduce_wrong 2", "2 wrong results of all_reduce"),
    ],
)
def test_the_past_of_as_many_nodes_is_the_measure(tmp_path: Path, figures: str, due: str) -> None:
    (tmp_path / "nodes").write_text("node0 cpu 0\n")
    past = "".join(f"{at} all:3 all_reduce_gb_s 10\n" for at in range(3))
    others = "1 all:2 all_reduce_gb_s 90\n1 all:4 all_reduce_gb_s 90\n1 all:5 all_reduce_gb_s 90\n"
    (tmp_path / "figures").write_text(past + others)
    (tmp_path / "all:3").write_text(figures + "\n")
    said = run(f"folder={tmp_path}\n{JUDGE}judge all:3", tmp_path)
    assert said.startswith(due)
    assert bool(said) is bool(due)


def test_the_program_is_whole_and_the_interface_is_told() -> None:
    before, _, rest = proof.group_program().partition("<<'CORRAL_COLLECTIVES'\n")
    program, end, _ = rest.partition("\nCORRAL_COLLECTIVES\n")
    assert before.startswith("#!/bin/sh")
    assert end
    compile(program, "collectives.py", "exec")
    spec = laptop(proof=ScheduledProof(every="1d"))
    data = spec.network.model_validate({"data": {"interface": "eth1"}})
    told = proof.settings(site(spec.model_copy(update={"network": data})))
    assert "interface eth1" in told.splitlines()
    plain: Site = site(spec)
    assert "interface" not in proof.settings(plain)


def test_ranks_meet_without_libuv(tmp_path: Path) -> None:
    """A distribution's PyTorch ends where libuv is asked for (seen: Debian's 2.6)."""
    python = tmp_path / "python3"
    python.write_text(
        '#!/bin/sh\necho "$USE_LIBUV" >>"$TMPDIR/seen"\ncase $2 in *cuda*) exit 1 ;; esac'
    )
    python.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    subprocess.run(["/bin/sh", "-c", proof.group_program()], check=True, env=env)
    assert set((tmp_path / "seen").read_text().split()) == {"0"}
    assert not list(tmp_path.glob("corral-collectives*"))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("RuntimeError: no libuv\nsrun: error: node0: task 1: Exited with exit code 1\n",
         "RuntimeError: no libuv"),
        ("srun: error: node0: task 1: Exited with exit code 1\n",
         "srun: error: node0: task 1: Exited with exit code 1"),
    ],
)  # fmt: skip
def test_a_broken_measurement_says_its_own_last_words(
    tmp_path: Path, error: str, words: str
) -> None:
    (tmp_path / "err").write_text(error)
    said = TEXT[TEXT.index("said() {") : TEXT.index("# measure NODE")]
    assert run(f'{said}said "$work/err"', tmp_path) == words
