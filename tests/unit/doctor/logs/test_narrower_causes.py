"""Of an entry's several causes the one is named that the log shows."""

from __future__ import annotations

import pytest

from corral.doctor.catalog import catalog
from corral.doctor.logs.diagnosis import explain, read
from corral.doctor.logs.narrower_causes import NarrowerCause, causes
from corral.doctor.model import LIVE
from corral.errors import CorralError
from corral.tables import parse_table

ROWS = [
    pytest.param(row, example, id=f"{row.failure}-{at}-{number}")
    for at, row in enumerate(causes())
    for number, example in enumerate(row.examples)
]
ENTRIES = sorted({row.failure for row in causes()})
# Nothing is wrong in these lines of jobs, shells and services.
HARMLESS = (
    "df -h /home",
    "squeue -h -u bob",
    "curl -H 'Accept: text/plain' http://localhost:8080/",
    "ssh -p 22 --host n1 hostname",
    "loading /data/tripod/set",
    "saved to /data/gpu_runs/429/partition-1",
    "mkdir -p gpu_logs",
    "Epoch 429/1000 loss 0.103",
    "error 103 files read",
    "GatedMLP loaded with num_heads 16 on docker0",
    "tensorboard at http://localhost:6006",
    "listening on 127.0.0.1:8888",
    'export WANDB_MODE="none"',
    "export NCCL_DEBUG=INFO MASTER_PORT=29500 PREFIX='null'",
    "export SCRATCH=/var/spool/slurmd/job7/ LOGFILE=/var/log/munge/munged.log",
    "cd /var/spool/slurmd/job7/",
    "sbatch --mem=16G --distribution=block a.sh",
    "python train.py --gpus 8 --batch 429 --memory 16",
    "GPU: NVIDIA H200",
    "which srun",
    "please specify the seed to repeat this run",
    "INFO spawn 8 workers, accelerate 1.2.0, deepspeed 0.15, docker 27.1, cudnn 9.1, nccl 2.22",
    "INFO worker-1 joined, node-2 joined",
    "INFO LayerNorm is needed by Block",
    "systemd[1]: Started apt-daily.timer - Daily apt download activities.",
    "enroot and apptainer are installed, kubernetes is not",
    "[12:00:00] debug:  auth/munge: init: Munge authentication plugin loaded",
)
NEAR = (*(HARMLESS[at : at + 3] for at in range(0, len(HARMLESS), 3)), HARMLESS)
"""A few of them around a message, and all."""
# Each of them had the cause of a row that is about something else.
OTHER_CAUSES = (
    "/var/spool/slurmd/job123/slurm_script: line 5: python3.12: command not found",
    "/var/spool/slurmd/job123/slurm_script: line 5: /opt/app/run.sh: No such file or directory",
    "/var/spool/slurmd/job123/slurm_script: line 5: cd: /scratch/bob: No such file or directory",
    'sbatch --mem=16G --cpus-per-task=x a.sh\nsbatch: error: Invalid numeric value "x" for '
    "--cpus-per-task.",
    "sbatch: error: Invalid --mem-bind specification",
    "df -h /home\nThere are not enough slots available in the system",
    "squeue -h -u bob\nThere are not enough slots available in the system",
    "mpirun -np 8 -H n1:4 ./a.out\nThere are not enough slots available in the system",
    "loading /data/tripod/set\nNo IB devices found",
    "Epoch 429/1000\nrequests.exceptions.ConnectionError: the server is away",
    "GatedMLP loaded\nhuggingface_hub.errors.RepositoryNotFoundError: 404 Client Error",
    "tensorboard at http://localhost:6006\nGloo connectFullMesh failed with error",
    "error 103 files read\nRuntimeError: No CUDA GPUs are available",
    "CUDA_VISIBLE_DEVICES=\nCUDA_VISIBLE_DEVICES=0,1\nRuntimeError: No CUDA GPUs are available",
    'export WANDB_MODE="none"\nsbatch: error: "4x" is not a valid node count',
    "sbatch: error: Unable to open file require.sh\n"
    "sbatch: error: Batch job submission failed: Node count specification invalid",
)


def cause(text: str, failure: str) -> str:
    """What is named as the cause of one entry's finding; "" without that finding."""
    findings = (f for f in explain(text).findings if f.failure.id == failure)
    return next((f"{f.failure.cause} {f.general}" for f in findings), "")


@pytest.mark.parametrize(("row", "example"), ROWS)
def test_each_cause_is_named_for_its_examples(row: NarrowerCause, example: str) -> None:
    finding = explain(example).findings[0]
    assert (finding.failure.id, finding.failure.cause) == (row.failure, row.cause)
    assert finding.failure.fix == row.fix
    if row.line:
        assert not finding.general


@pytest.mark.parametrize("text", OTHER_CAUSES)
def test_another_line_or_the_path_of_the_script_chooses_no_cause(text: str) -> None:
    findings = explain(text).findings
    assert findings
    chosen = {(row.failure, row.cause) for row in causes()}
    assert not chosen & {(f.failure.id, f.failure.cause) for f in findings}


def test_srun_that_is_missing_in_a_script_is_about_slurm_s_commands() -> None:
    text = "/var/spool/slurmd/job1/slurm_script: line 5: srun: command not found"
    assert explain(text).findings[0].failure.title == (
        "Slurm's commands are not where this program runs"
    )


@pytest.mark.parametrize("harmless", HARMLESS)
def test_lines_that_are_no_error_are_no_finding(harmless: str) -> None:
    assert not explain(f"{harmless}\n").findings


@pytest.mark.parametrize("failure", ENTRIES)
def test_harmless_lines_near_a_message_choose_no_cause(failure: str) -> None:
    """Near what the entry and its rows have as examples, and near each of their lines alone."""
    rows = [row for row in causes() if row.failure == failure]
    examples = [*catalog()[failure].examples, *(e for row in rows for e in row.examples)]
    lines = [line for example in examples for line in example.split("\n")]
    for text in dict.fromkeys([*examples, *lines]):
        expected = cause(text, failure)
        for near in NEAR if expected else ():
            assert cause("\n".join((*near, text, *near)), failure) == expected, near


@pytest.mark.parametrize(("row", "example"), ROWS)
def test_a_cluster_s_own_logs_choose_no_cause(row: NarrowerCause, example: str) -> None:
    """A user writes lines into them: the entry's own text stays."""
    for source in LIVE:
        for finding in read(example, source):
            assert finding.failure == catalog()[finding.failure.id], row.title


@pytest.mark.parametrize(
    "row", causes(), ids=[f"{row.failure}-{n}" for n, row in enumerate(causes())]
)
def test_every_row_is_complete(row: NarrowerCause) -> None:
    assert row.line or row.log
    for text in (row.cause, row.fix, row.title):
        assert text == text.strip()
        assert not text.endswith(".")
        assert "  " not in text
    for pattern in (*row.line, *row.log, *row.unless):
        assert not pattern.expression.search("")


def test_without_its_evidence_the_entry_keeps_its_causes() -> None:
    (finding,) = explain("sbatch: error: Invalid --frob specification\n").findings
    assert finding.failure == catalog()["F241"]


def test_a_message_of_several_causes_is_sure_once_its_own_line_shows_one() -> None:
    """Another line names the cause, and may be about another step or program."""
    message = "RuntimeError: No CUDA GPUs are available\n"
    (vague,) = (f for f in explain(message).findings if f.failure.id == "F76")
    assert vague.general
    (shown,) = explain(f"CUDA_VISIBLE_DEVICES=NoDevFiles\n{message}").findings
    assert shown.general
    assert "CUDA_VISIBLE_DEVICES" in shown.failure.title
    (sure,) = explain(
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    ).findings
    assert not sure.general


def test_the_start_of_a_message_is_where_it_starts() -> None:
    """``^SyntaxError: `` is not in the middle of another program's message."""
    row = next(row for row in causes() if row.line and row.line[0].text.startswith("^SyntaxError"))
    message = "ValueError: the server reports SyntaxError: unexpected token"
    assert (
        explain(
            f'Traceback (most recent call last):\n  File "/x/a.py", line 3, in f\n'
            f"    f()\n{message}"
        )
        .findings[0]
        .failure.cause
        != row.cause
    )


def test_a_row_for_an_entry_that_is_not_there_is_refused() -> None:
    row = "- {failure: F9999, line: [frob], cause: a, fix: b, examples: [frob]}\n"
    with pytest.raises(CorralError, match="F9999 is not an entry"):
        parse_table(row, "narrower_causes.yaml", tuple[NarrowerCause, ...])
