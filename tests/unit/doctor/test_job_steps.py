"""Running jobs compared with slurmstepd processes: neither start nor end of a job is a finding."""

from __future__ import annotations

import pytest

from corral.doctor.cluster_diagnosis import diagnose
from corral.doctor.job_steps import AGAIN, doubtful
from corral.doctor.machine_report import MachineReport
from corral.inspect.jobs import LAST
from tests.unit.doctor.scenes import SILENT, SLURM_CONF, scene, with_answers

CTL, N1, N2 = "node0", "node1", "node2"
CONTAIN = f"{SLURM_CONF}\nPrologFlags=X11,Contain\n"
OLD = "7|RUNNING|1:02:03|node[1-2]"
STEP = "  3723 slurmstepd: [7.extern]\n  3720 slurmstepd: [7.0]"


def looked(
    jobs: str,
    steps: str,
    *,
    again: tuple[str, str] | None = None,
    conf: str = CONTAIN,
    last: str = LAST,
) -> list[tuple[str, tuple[str, ...], str]]:
    """Findings of such answers; node2 has a step of job 7 in both looks."""
    jobs_again, steps_again = again or (jobs, steps)

    def answer(text: str) -> str:
        return f"{text}\n{last}"

    changed = scene(
        {
            CTL: {
                "slurmconf": conf,
                "jobs": answer(jobs),
                f"jobs{AGAIN}": answer(jobs_again),
                "steps": LAST,
                f"steps{AGAIN}": LAST,
            },
            N1: {"steps": answer(steps), f"steps{AGAIN}": answer(steps_again)},
            N2: {"steps": answer(STEP), f"steps{AGAIN}": answer(STEP)},
        }
    )
    findings = [f for f in diagnose(changed).findings if f.failure.id in ("F200", "F201")]
    return [(f.failure.id, f.nodes, f.detail) for f in findings]


def test_a_job_without_a_process_on_one_of_its_nodes() -> None:
    assert looked(OLD, "") == [("F200", (N1,), "job 7")]
    assert looked(OLD.replace("RUNNING", "SUSPENDED"), "") == [("F200", (N1,), "job 7")]
    assert looked(OLD, "  99 slurmstepd: [17.0]\n  9 slurmstepd: [77.0]") == [
        ("F200", (N1,), "job 7")
    ]


def test_a_process_without_a_job() -> None:
    findings = looked(OLD, f"{STEP}\n  500 slurmstepd: [6.0]")
    assert findings == [("F201", (N1,), "job 6")]


@pytest.mark.parametrize(
    ("jobs", "steps", "again"),
    [
        (OLD, STEP, None),
        (OLD, STEP.replace("[7", "[lab 7"), None),
        (OLD.replace("1:02:03", "1:59"), "", None),  # it may still start
        (OLD, "", (OLD, STEP)),
        (OLD, "", ("7|COMPLETING|1:02:04|node[1-2]", STEP)),  # it ends just now
        (OLD.replace("RUNNING", "COMPLETING"), "", None),
        (OLD.replace("RUNNING", "CONFIGURING"), "", None),
        (OLD, f"{STEP}\n  119 slurmstepd: [6.0]", None),
        (OLD, f"{STEP}\n  500 slurmstepd: [6.0]", (OLD, STEP)),  # it ended just now
        (f"{OLD}\n6|COMPLETING|9:00|node1", f"{STEP}\n  500 slurmstepd: [6.0]", None),
    ],
)
def test_nothing_where_a_job_starts_or_ends(
    jobs: str, steps: str, again: tuple[str, str] | None
) -> None:
    assert [f for f in looked(jobs, steps, again=again) if f[1] == (N1,)] == []


def test_what_was_not_read_is_unknown() -> None:
    assert looked(OLD, "", last="") == []  # ps or squeue failed
    assert looked("", STEP, last="") == []
    assert looked("7|RUNNING|soon|node1", "") == []
    assert looked("7|RUNNING", STEP) == []
    base = scene({CTL: {"slurmconf": CONTAIN, "jobs": f"{OLD}\n{LAST}"}})
    assert [
        f.failure.id for f in diagnose(with_answers(base, MachineReport(N1, error=SILENT))).findings
    ] == ["F69"]


def test_without_an_extern_step_a_node_may_be_idle() -> None:
    assert looked(OLD, "", conf=SLURM_CONF) == []


def test_a_second_look_is_taken_only_where_they_disagree() -> None:
    answers = {"slurmconf": CONTAIN, "jobs": f"{OLD}\n{LAST}", "steps": LAST}
    agree = {N1: {"steps": f"{STEP}\n{LAST}"}, N2: {"steps": f"{STEP}\n{LAST}"}}
    assert doubtful(scene({CTL: answers, **agree})) == ()
    assert doubtful(scene({CTL: answers, **agree, N1: {"steps": LAST}})) == (CTL, N1)
    broken = scene({CTL: answers, **agree, N1: {"steps": LAST}})
    assert "F200" not in [f.failure.id for f in diagnose(broken).findings]
