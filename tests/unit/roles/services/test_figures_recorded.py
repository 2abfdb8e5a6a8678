"""Output of a real machine with four busy GPUs: Prometheus metrics and the job's sentence."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from corral import agents
from corral.jobs.usage import gpus_in_words

BUSY = Path(__file__).parents[3] / "recorded" / "gpu" / "h200x4-busy"
PROGRAM = agents.FOLDER / "figures.sh"


def test_four_gpus_of_one_job(tmp_path: Path) -> None:
    for line in (BUSY / "cgroups.txt").read_text().splitlines():
        pid, _, group = line.partition(" ")
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "cgroup").write_text(f"{group}\n")
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        f"#!/bin/sh\ncase $1 in *compute-apps*) cat '{BUSY}/apps.csv' ;; "
        f"*) cat '{BUSY}/gpus.csv' ;; esac\n"
    )
    smi.chmod(0o755)
    env = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CORRAL_CGROUP": str(tmp_path),
        "CORRAL_PROC": str(tmp_path / "proc"),
    }
    done = subprocess.run(["sh", PROGRAM], env=env, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    for gpu, name in enumerate("abcd"):
        assert f'corral_gpu_job{{gpu="{gpu}",uuid="GPU-{name}",jobid="20"}} 1' in lines
    assert 'corral_gpu_utilization_ratio{gpu="1",uuid="GPU-b"} 0.92' in lines
    assert 'corral_gpu_memory_used_bytes{gpu="3",uuid="GPU-d"} 9876537344' in lines
    assert 'corral_gpu_watts{gpu="2",uuid="GPU-c"} 682.3' in lines


HEALTH = Path(__file__).parents[3] / "recorded" / "health"
XID = "[  83.511744] [  T77] NVRM: Xid (PCI:0000:81:00): {}, pid=1, name=python3, x"


def errors_of(tmp_path: Path, rows: list[str], kernel: str | None) -> list[str]:
    """The lines about errors of GPUs, where nvidia-smi prints rows and the kernel's log is this."""
    (tmp_path / "rows").write_text("".join(f"{row}\n" for row in rows))
    (tmp_path / "kernel").write_text(kernel or "")
    dmesg = f"cat '{tmp_path}/kernel'" if kernel is not None else "exit 1"
    for name, line in (
        ("nvidia-smi", f"case $1 in *apps*) ;; *) cat '{tmp_path}/rows' ;; esac"),
        ("dmesg", dmesg),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CORRAL_CGROUP": str(tmp_path)}
    argv = ["sh", PROGRAM]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    words = ("corral_gpu_ecc", "corral_gpu_xid")
    return [line for line in done.stdout.splitlines() if line.startswith(words)]


def test_errors_of_gpus_are_known_without_nvidias_exporter(tmp_path: Path) -> None:
    rows = [
        "0, GPU-a, 95, 9419, 143771, 56, 675.40, 0, 00000000:81:00.0",
        "1, GPU-b, 92, 9419, 143771, 61, 659.55, 3, 00000000:C1:00.0",
        "2, GPU-c, 92, 9419, 143771, 61, 659.55, [N/A], 00000001:81:00.0",
    ]
    lines = [XID.format(number) for number in (31, 31, 79)]
    lines += [XID.format(48).replace("81:00", "c1:00")]
    lines += ["[  84.0] python3[7]: segfault at 0 in NVRM: Xid (PCI:0000:81:00): 95, pid=1"]
    kernel = "\n".join([*lines, "[  85.0] usb 1-1: new device"])
    a, b, c = ('gpu="0",uuid="GPU-a"', 'gpu="1",uuid="GPU-b"', 'gpu="2",uuid="GPU-c"')
    assert errors_of(tmp_path, rows, kernel) == [
        f"corral_gpu_ecc_uncorrected{{{a}}} 0",
        f"corral_gpu_ecc_uncorrected{{{b}}} 3",
        f'corral_gpu_xids{{{a},xid="31"}} 2',
        f'corral_gpu_xids{{{a},xid="79"}} 1',
        f'corral_gpu_xids{{{b},xid="48"}} 1',
        f"corral_gpu_xids{{{c}}} 0",
    ]
    # A log that cannot be read has no figure: none is not known.
    assert errors_of(tmp_path, rows[:1], None) == [f"corral_gpu_ecc_uncorrected{{{a}}} 0"]


def test_xids_of_recorded_logs_are_of_the_gpu_that_nvidia_smi_names(tmp_path: Path) -> None:
    row = "0, GPU-a, 95, 9419, 143771, 56, 675.40, 0, 00000000:00:06.0"
    assert (HEALTH / "h200/gpus").read_text().startswith("0, 00000000:00:06.0")
    seen = errors_of(tmp_path, [row], (HEALTH / "h100-xid-31.txt").read_text())
    assert seen[1].startswith('corral_gpu_xids{gpu="0",uuid="GPU-a",xid="31"} ')


def test_what_the_health_check_saw_last_is_among_the_metrics(tmp_path: Path) -> None:
    """As health.sh keeps it: verdict, check and words, with tabs between."""
    last = tmp_path / "last"
    last.write_text(
        "ok\thealth.gpus\t8 of 8\nfail\thealth.xid\tXid 79\nwarn\thealth.disk\t/tmp 91 %\n"
        'none\thealth.ib\tno ports\nfail\thealth.a"b\tx\nodd\thealth.spool\tx\n'
    )
    os.utime(last, (1795000000, 1795000000))
    env = {"PATH": os.environ["PATH"], "CORRAL_CGROUP": str(tmp_path), "CORRAL_PROC": str(tmp_path)}
    argv, more = ["sh", PROGRAM], {"CORRAL_HEALTH_RUN": str(tmp_path)}
    done = subprocess.run(argv, env=env | more, capture_output=True, text=True, check=True)
    samples = [line for line in done.stdout.splitlines() if line.startswith("corral_health")]
    assert samples == [
        'corral_health_check{check="gpus"} 0',
        'corral_health_check{check="xid"} 2',
        'corral_health_check{check="disk"} 1',
        'corral_health_check{check="ib"} -1',
        "corral_health_time_seconds 1795000000",
    ]
    gone = {"CORRAL_HEALTH_RUN": str(tmp_path / "none")}
    done = subprocess.run(argv, env=env | gone, capture_output=True, text=True, check=True)
    assert "corral_health" not in done.stdout


def test_who_follows_the_job_reads_words() -> None:
    rows = [line.split(", ") for line in (BUSY / "gpus.csv").read_text().splitlines()]
    sample = "".join(f"{busy}, {used}, {total};" for _, _, busy, used, total, *_ in rows)
    assert gpus_in_words({"gpu0": sample}) == "GPUs 95 % busy, GPU memory at most 9.2 of 140 GiB"
