"""Collectives of the scheduled proof: who is slow, found by the round's own shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from corral.agents import program
from corral.roles.inventory import Site
from corral.roles.services import proof
from corral.spec.sections.services import ScheduledProof
from tests.unit.roles.test_cluster import laptop, site

TEXT = proof.text("proof-round.sh")
NARROW = (
    TEXT[TEXT.index("slot() {") : TEXT.index("# fewest_cpus NODES")]
    + TEXT[TEXT.index("last_line() {") : TEXT.index("# measure NODE")]
    + TEXT[TEXT.index("patiently() {") : TEXT.index("# judge NODE")]
)
CPUS = TEXT[TEXT.index("fewest_cpus() {") : TEXT.index("# together NODES")]
JUDGE = TEXT[TEXT.index("judge() {") : TEXT.index("remember() {")]
# Nodes of a list reach 10 GB/s together; 1 where a slow one or a slow link is among them; 3 over
# the trunk a|b. Wrong ones return wrong sums, and busy nodes are not measured.
TOGETHER = """
sleep() { echo $1 >>"$work/naps"; }
together() {
  r=10 w=0 word=measured
  for s in ${SLOW:-}; do case ",$1," in *,$s,*) r=1 ;; esac; done
  for s in ${WRONG:-}; do case ",$1," in *,$s,*) w=7 ;; esac; done
  for s in ${BUSY:-}; do case "$1" in $s) word=preempted r= ;; esac; done
  for s in ${ENDING:-}; do case "$1" in $s) [ -e "$work/was" ] || word=busy r=; : >"$work/was" ;;
  esac; done
  for s in ${BROKEN:-}; do case "$1" in $s) word=broken r= ;; esac; done
  case $1 in *${LINK:-nobody}*) r=1 ;; *a1*b1*) [ -z "${TRUNK:-}" ] || r=3 ;; esac
  echo "$1" >>"$work/measured"
  { [ -z "$r" ] || echo "figure all_reduce_gb_s $r"; echo "figure all_reduce_wrong $w"; } \\
    >"$(slot "$1")"
  echo 'no route to host' >"$(slot "$1").err"
  echo $word >"$(slot "$1").word"
}
"""
SLOWER = "all_reduce_gb_s is 1, it had 10 before"
HINT = "look at its card, cable and port"


def narrowed(folder: Path, nodes: str, why: str = SLOWER, **env: str) -> str:
    """What a round reports of nodes that are slow or wrong together."""
    text = f"{NARROW}{TOGETHER}together {nodes}; rm -f $work/measured; narrow {nodes} '{why}'"
    return run(text, folder, **env)


def run(text: str, folder: Path, **env: str) -> str:
    shell = shutil.which("dash") or "/bin/sh"
    done = subprocess.run(
        [shell, "-u", "-c", f"work={folder}\n{text}"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", **env},
    )
    assert done.stderr == ""
    return done.stdout.strip()


PRINTS = """
import json, os
rows = [{"out_of_place": {"bus_bw": %s, "nwrong": 0}, "in_place": None}]
found = json.dumps({"args": ["all_reduce_perf"], "results": rows})
print("@@corral-bench " + found.replace("0.5", "99"))
print("@@failed")
print("corral-00000000000000000000000000000000 bench " + found)
print(os.environ["CORRAL_REPORT"] + "row {}")
print(os.environ["CORRAL_REPORT"] + "bench " + found)
raise SystemExit(%d)
"""


@pytest.mark.parametrize("status", [0, 1])
def test_only_the_benchmark_itself_reports_figures(tmp_path: Path, status: int) -> None:
    """Any line of its output that began with a fixed mark was a figure, or a failure."""
    torch = tmp_path / "torch"
    torch.mkdir()
    no_gpu = "class cuda:\n    is_available = staticmethod(lambda: False)\n"
    (torch / "__init__.py").write_text(no_gpu)
    (torch / "distributed.py").write_text("def is_available():\n    return True\n")
    text = proof.text("proof-group.sh")
    start, end = text.index("  python3 - --coll"), text.index("  code=$?")
    program = f"  python3 - <<'PROGRAM'\n{PRINTS % (0.5, status)}\nPROGRAM\n"
    done = subprocess.run(
        ["/bin/sh", "-c", text[:start] + program + text[end:]],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)},
    )
    assert done.stdout.splitlines() == ["figure all_reduce_gb_s 0.5", "figure all_reduce_wrong 0"]
    assert (done.returncode != 0) == (status != 0)


@pytest.mark.parametrize(
    ("nodes", "ranks", "cpus"),
    [
        (("CPUAlloc=0 CPUEfctv=32 CPUTot=32", "CPUAlloc=0 CPUEfctv=32 CPUTot=32"), 1, "32"),
        (("CPUAlloc=0 CPUEfctv=30 CPUTot=32", "CPUAlloc=0 CPUTot=64"), 4, "7"),
        (("CPUAlloc=0 CPUTot=2",), 8, "1"),
        ((), 8, "1"),
    ],
)
def test_ranks_share_the_processors_of_the_smallest_node(
    tmp_path: Path, nodes: tuple[str, ...], ranks: int, cpus: str
) -> None:
    shown = "".join(f"NodeName=n{i} {node} OS=Linux #1 SMP\\n" for i, node in enumerate(nodes))
    text = f"timeout() {{ printf '{shown}'; }}\nshare $(fewest_cpus a,b) {ranks}"
    assert run(f"{program('slurm-nodes.sh')}\n{CPUS}{text}", tmp_path) == cpus
    assert '--cpus-per-task="$(share "$cpus" "$ranks")"' in TEXT


@pytest.mark.parametrize("slow", ["a3", "b2"])
def test_one_slow_node_of_eight(tmp_path: Path, slow: str) -> None:
    report = narrowed(tmp_path, "a1,a2,a3,a4,b1,b2,b3,b4", SLOW=slow)
    assert report == f"{slow} is slow with every other node (1 of 10 GB/s): {HINT}"


def test_one_of_three(tmp_path: Path) -> None:
    report = narrowed(tmp_path, "a1,a2,a3", SLOW="a2")
    assert report == f"a2 is slow with every other node (1 of 10 GB/s): {HINT}"
    assert (tmp_path / "measured").read_text().split() == ["a1,a2", "a1,a3", "a2,a3"]


def test_two_slow_ones_in_two_halves(tmp_path: Path) -> None:
    report = narrowed(tmp_path, "a1,a2,b1,b2", SLOW="a2 b2")
    assert report == "; ".join(
        f"{n} is slow with every other node (1 of 10 GB/s): {HINT}" for n in ("a2", "b2")
    )
    report = narrowed(tmp_path, "a1,a2,a3,b1,b2,b3", SLOW="a2 b2")
    assert report.startswith("a1,a2,a3 and b1,b2,b3 are so each alone: more than one node, or")


@pytest.mark.parametrize("nodes", ["a1,a2,a3", "a1,a2,a3,a4,b1,b2,b3"])
def test_a_slow_link_between_two_good_nodes(tmp_path: Path, nodes: str) -> None:
    report = narrowed(tmp_path, nodes, LINK="a1,a2")
    assert report == "a1 and a2 reach 1 GB/s, other pairs 10 GB/s: look at the path between them"


@pytest.mark.parametrize("nodes", ["a1,a2,a3", "a1,a2,a3,a4,b1"])
def test_who_gives_wrong_results(tmp_path: Path, nodes: str) -> None:
    why = "7 wrong results of all_reduce_wrong"
    report = narrowed(tmp_path, nodes, why, WRONG="a2")
    assert report == (
        "a2 gives wrong results with every other node: look at its memory and its GPUs"
    )


def test_what_all_share(tmp_path: Path) -> None:
    report = narrowed(tmp_path, "a1,a2,a3", SLOW="a1 a2 a3")
    assert report.startswith("no node and no two of them stand out: look at what all share")


@pytest.mark.parametrize("away", ["a1,a2", "a1,a3"])
def test_a_users_job_meanwhile_makes_nobody_slow(tmp_path: Path, away: str) -> None:
    """A pair that was preempted by a job was counted with a bandwidth of 0."""
    report = narrowed(tmp_path, "a1,a2,a3", SLOW="a3", BUSY=away)
    assert report == "who it is was not found: a job of somebody came first"
    (tmp_path / "more").mkdir()
    report = narrowed(tmp_path / "more", "a1,a2,a3,a4", SLOW="a4", BROKEN="a1,a2")
    assert report == "who it is was not found: a1,a2 was not measured: no route to host"


def test_what_is_ending_there_still_is_waited_for(tmp_path: Path) -> None:
    report = narrowed(tmp_path, "a1,a2,a3", SLOW="a3", ENDING="a1,a3")
    assert report == f"a3 is slow with every other node (1 of 10 GB/s): {HINT}"
    assert (tmp_path / "naps").read_text().split() == ["1"]
    (tmp_path / "more").mkdir()
    report = narrowed(tmp_path / "more", "a1,a2,a3", SLOW="a3", BUSY="a1,a3")
    assert report.endswith("a job of somebody came first")
    assert not (tmp_path / "more" / "naps").exists(), "a user's job is not waited for"


def test_many_nodes_with_long_names(tmp_path: Path) -> None:
    """A list of them cannot name a file: 255 bytes are the most that a name has."""
    names = [f"a-node-with-a-long-name-{i:03}" for i in range(16)]
    report = narrowed(tmp_path, ",".join(names), SLOW=names[9])
    assert report == f"{names[9]} is slow with every other node (1 of 10 GB/s): {HINT}"


def test_what_joins_two_good_halves(tmp_path: Path) -> None:
    report = narrowed(tmp_path, "a1,a2,b1,b2", TRUNK="1")
    assert report == (
        "a1,a2 (10 GB/s) and b1,b2 (10 GB/s) are slow only together: look at what joins them, "
        "a switch or the trunk between two"
    )


def test_of_two_the_cause_is_unknown(tmp_path: Path) -> None:
    report = narrowed(tmp_path, "a1,a2", SLOW="a1")
    assert report == "a1,a2: with two nodes it is unknown which"


@pytest.mark.parametrize(
    ("figures", "reason"),
    [
        ("figure all_reduce_gb_s 8\nfigure all_reduce_wrong 0", ""),
        ("figure all_reduce_gb_s 6\nfigure all_reduce_wrong 0", "all_reduce_gb_s is 6, it had 10"),
        ("figure all_reduce_gb_s 10\nfigure all_reduce_wrong 2", "2 wrong results of all_reduce"),
    ],
)
def test_figures_are_compared_with_the_past_of_as_many_nodes(
    tmp_path: Path, figures: str, reason: str
) -> None:
    (tmp_path / "nodes").write_text("node0 cpu 0\n")
    past = "".join(f"{at} all:3 all_reduce_gb_s 10\n" for at in range(3))
    others = "1 all:2 all_reduce_gb_s 90\n1 all:4 all_reduce_gb_s 90\n1 all:5 all_reduce_gb_s 90\n"
    (tmp_path / "figures").write_text(past + others)
    (tmp_path / "all:3").write_text(figures + "\n")
    verdict = run(f"folder={tmp_path}\n{JUDGE}judge all:3", tmp_path)
    assert verdict.startswith(reason)
    assert bool(verdict) is bool(reason)


def test_the_program_is_complete_and_the_interface_is_set() -> None:
    before, _, rest = proof.group_program().partition("<<'CORRAL_COLLECTIVES'\n")
    program, end, _ = rest.partition("\nCORRAL_COLLECTIVES\n")
    assert before.startswith("#!/bin/sh")
    assert end
    compile(program, "collectives.py", "exec")
    spec = laptop(proof=ScheduledProof(every="1d"))
    data = spec.network.model_validate({"data": {"interface": "eth1"}})
    settings = proof.settings(site(spec.model_copy(update={"network": data})))
    assert "interface eth1" in settings.splitlines()
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
        ("[rank0]: Last error:\n[rank0]: Duplicate GPU detected : rank 0 and rank 1\n"
         "[rank0]:[W1122 12:22:01.833779557 ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy\n"
         "slurmstepd-gpu0: error: *** STEP 19.0 ON gpu0 CANCELLED AT 2026-11-22T12:25:01 ***\n",
         "[rank0]: Duplicate GPU detected : rank 0 and rank 1"),
        ("srun: error: node0: task 1: Exited with exit code 1\n",
         "srun: error: node0: task 1: Exited with exit code 1"),
    ],
)  # fmt: skip
def test_a_broken_measurement_reports_its_own_last_words(
    tmp_path: Path, error: str, words: str
) -> None:
    (tmp_path / "err").write_text(error)
    function = TEXT[TEXT.index("last_line() {") : TEXT.index("# measure NODE")]
    assert run(f'{function}last_line "$work/err"', tmp_path) == words
