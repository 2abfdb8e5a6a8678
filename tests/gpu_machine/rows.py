"""Measure rows on a machine with GPUs, of a kit alone, and write what was seen to record.jsonl.

    python3 -m tests.gpu_machine.rows --kit /kit --out OUT               # all rows
    python3 -m tests.gpu_machine.rows --kit /kit --out OUT --rows root,a2-up

As root, in the kit's folder tree, with the machine's own Python (3.11 or later, with PyTorch). Rows
are carried out in the order of ``ROWS``; one that fails is recorded, and the next follows.
Without GPUs nodes get stand-ins, and what computes is left out: so a kit is tried beforehand.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.gpu_machine import contained, here, training
from tests.gpu_machine.cluster import FILES
from tests.gpu_machine.lab import Lab
from tests.gpu_machine.machine import Machine, Record, ran

A, B = "a2", "b2"
"""The clusters: a node for each GPU, and one node with all of them."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "sendrecv")
QUERY = "index,name,memory.total,driver_version,mig.mode.current,mig.mode.pending,compute_mode"


def facts(lab: Lab) -> None:
    """What the machine is; MIG is asked for, never set."""
    add = lab.record.add
    uname = platform.uname()
    add("facts", "system", uname=f"{uname.release} {uname.machine}", cpus=os.cpu_count())
    for name, argv in (
        ("GPUs", ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv"]),
        ("MIG instances", ["nvidia-smi", "mig", "-lgi"]),
        ("links", ["nvidia-smi", "nvlink", "-s"]),
        ("topology", ["nvidia-smi", "topo", "-m"]),
        ("disks", ["df", "-hT", "/", "/tmp", "/dev/shm"]),
        ("memory", ["free", "-g"]),
        ("cgroups", ["sh", "-c", "stat -fc %T /sys/fs/cgroup; cat /proc/self/cgroup; id -u"]),
        ("libcuda", ["sh", "-c", "ldconfig -p | grep -E 'libcuda.so|libnvidia-ml'"]),
        ("system", ["sh", "-c", "head -2 /etc/os-release; command -v nvidia-smi zstd podman nvcc"]),
        ("modules", ["sh", "-c", "lsmod | head -40; ls /dev/nvidia* /dev/fuse /dev/net"]),
    ):
        if shutil.which(argv[0]):
            lab.record.command("facts", name, ran(argv, 60))
    words = "import torch, sys, sysconfig; print(torch.__version__, torch.cuda.nccl.version(), "
    words += "sys.executable, sys.base_prefix, sysconfig.get_path('stdlib'), "
    words += "sysconfig.get_path('purelib'))"
    lab.record.command("facts", "PyTorch", ran([sys.executable, "-c", words], 120))


def root(lab: Lab) -> None:
    """The changed root, and Corral from the bundle's wheels."""
    began = time.monotonic()
    lab.machine.unpack()
    lab.record.add("root", "unpacked", seconds=round(time.monotonic() - began, 1))
    lab.machine.mount()
    lab.machine.driver()
    lab.machine.hold()
    script = (
        "set -e; cd /root; tar --zstd -xf /kit/bundle.tar.zst --wildcards 'wheels/*'; "
        "python3 -m venv /opt/corral; /opt/corral/bin/pip install -q --no-index "
        "--find-links wheels --require-hashes -r wheels/requirements.txt; corral --version; "
        "podman version -f '{{.Client.Version}}'; crun --version | head -1"
    )
    lab.record.command("root", "pip install", lab.machine.inside("sh", "-c", script))
    smi = lab.machine.inside("sh", "-c", "nvidia-smi -L; sha256sum /kit/bundle.tar.zst")
    lab.record.command("root", "in the root", smi)
    lab.keep(sha256=smi.stdout.split()[-2] if smi.stdout else "")
    lab.leftovers("before")


def broken_bundle(lab: Lab) -> None:
    """A bundle with another digest, one with a changed byte, one that is cut: nothing is made."""
    lab.write_file(B, joined=True)
    kit = lab.machine.kit
    good = kit / "bundle.tar.zst"
    size = good.stat().st_size
    changed, cut = kit / "changed.tar.zst", kit / "cut.tar.zst"
    shutil.copy(good, changed)
    with changed.open("r+b") as stream:
        stream.seek(size // 2)
        byte = stream.read(1)
        stream.seek(size // 2)
        stream.write(bytes([byte[0] ^ 0xFF]))
    shutil.copy(good, cut)
    os.truncate(cut, size * 9 // 10)
    file = f"/root/{B}.yaml"
    up = ("up", file, "--yes", "--bundle")
    lab.machine.corral("broken-bundle", *up, "/kit/bundle.tar.zst", "--sha256", "0" * 64)
    lab.machine.corral("broken-bundle", *up, "/kit/changed.tar.zst", "--sha256", lab.kept["sha256"])
    lab.machine.corral("broken-bundle", *up, "/kit/changed.tar.zst")
    lab.machine.corral("broken-bundle", *up, "/kit/cut.tar.zst")
    changed.unlink()
    cut.unlink()
    left = "podman ps -aq; podman images -q; podman volume ls -q; podman network ls -q --filter "
    left += "name=corral; ls /var/tmp /root/.local/state/corral/clusters 2>&1"
    lab.record.command("broken-bundle", "what is there", lab.machine.inside("sh", "-c", left))


def busy_gpu(lab: Lab) -> None:
    """A process of this machine computes on the GPUs: no plan, no up."""
    if not lab.gpus:
        return
    lab.write_file(B, joined=True)
    holder = lab.holder(60)
    try:
        users = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv"]
        lab.record.command("busy-gpu", "who uses it", ran(users, 60))
        lab.machine.corral("busy-gpu", "plan", f"/root/{B}.yaml")
        lab.machine.corral(
            *("busy-gpu", "up", f"/root/{B}.yaml", "--yes", "--bundle", "/kit/bundle.tar.zst")
        )
    finally:
        holder.kill()
        holder.wait()
    left = lab.machine.inside("sh", "-c", "podman ps -aq; podman images -q")
    lab.record.command("busy-gpu", "what is there", left)


def declared(lab: Lab) -> None:
    """Plans of files that the GPUs do not fit, and of one with GPUs next to stand-ins."""
    if not lab.gpus:
        return
    row, name = "declared", "declared"
    lab.write_file(name, joined=False)
    file = lab.machine.root / f"root/{name}.yaml"
    good = file.read_text()
    group = good[good.index("  - name: gpu") : good.index("partitions:")]
    nodes = next(line for line in group.splitlines() if "nodes:" in line)
    more = good.replace(nodes, f"    nodes: node[0-{lab.gpus}]")
    model = re.sub(r"type: \w+", "type: rtx4090", good)
    other = group.replace("name: gpu", "name: empty").replace(nodes, "    nodes: node9")
    other = other.replace("source: host", "source: stand-in")
    mixed = good.replace(group, group + other).replace("groups: [gpu]", "groups: [gpu, empty]")
    for what, text in (("a node too many", more), ("another model", model), ("mixed", mixed)):
        file.write_text(text)
        lab.record.add(row, what, text=text)
        done = lab.machine.corral(row, "plan", f"/root/{name}.yaml", timeout=60)
        print("   " + done.text.strip()[-900:].replace("\n", "\n   "), flush=True)


def up(lab: Lab, name: str, *, joined: bool, more: bool) -> None:
    """From a file to a proven cluster, with metrics and containers or without."""
    row, file = f"{name}-up", f"/root/{name}.yaml"
    lab.write_file(name, joined=joined, more=more)
    lab.machine.corral(row, "plan", file, timeout=60)
    words = ("--bundle", "/kit/bundle.tar.zst", "--sha256", lab.kept["sha256"])
    done = lab.machine.inside("corral", "up", file, "--yes", "--json", *words, timeout=420)
    (lab.record.folder / f"{row}.json").write_text(done.stdout)
    lab.record.command(row, "corral up --bundle", done)
    lab.record.add(row, "proof", **proof_of(done.stdout))
    lab.machine.corral(row, "plan", file, timeout=60)
    for node in lab.nodes(name):
        script = "nvidia-smi -L; ls /dev/nvidia*; ldconfig -p | grep -c corral-nvidia; ls -l "
        script += "/usr/local/nvidia/lib64 | grep libcuda"
        lab.record.command(row, f"GPUs of {node}", lab.machine.node(name, node, script))
    if lab.gpus:
        lab.python_for_nodes(name)


def proof_of(text: str) -> dict[str, object]:
    """What of the result the record shows at once."""
    try:
        proof = json.loads(text.splitlines()[-1])["proof"]
    except (IndexError, ValueError, KeyError):
        return {"proven": "no proof"}
    results = proof["results"]
    verdicts = Counter(result["verdict"] for result in results)
    shown = [r for r in results if r["verdict"] in ("fail", "warn") or "isolation.dev" in str(r)]
    return {"proven": proof["proven"], "verdicts": verdicts, "shown": [str(r)[:600] for r in shown]}


def gpu_bench(lab: Lab, name: str) -> None:
    """``corral bench gpu``."""
    if lab.gpus:
        file = f"/root/{name}.yaml"
        html = f"/root/{name}-gpu.html"
        done = lab.machine.corral(
            f"{name}-gpu", "bench", "gpu", file, "--json", "--html", html, timeout=200
        )
        (lab.record.folder / f"{name}-gpu.json").write_text(done.stdout)


def round_of(lab: Lab, name: str) -> None:
    """A round of the scheduled proof, on the controller."""
    done = lab.machine.node(name, "node0", "corral-proof-round", timeout=240)
    lab.record.command(f"{name}-round", "corral-proof-round", done)
    script = "find /var/lib/corral -type f -newermt '-5 min' | head -5 | xargs -r tail -c 5000"
    kept = lab.machine.node(name, "node0", script)
    lab.record.command(f"{name}-round", "what it kept", kept)


def collectives(lab: Lab, name: str) -> None:
    """All six between two runs of nccl-tests, each figure compared with the run before."""
    if lab.gpus < 2:
        return
    row, file = f"{name}-collectives", f"/root/{name}.yaml"
    build = lab.nccl_tests(name)
    if build is None:
        return
    sizes = ("--smallest", "256M", "--largest", "8G", "--json")
    for number, more in enumerate((("--nccl-tests", build), (), ("--nccl-tests", build))):
        for collective in COLLECTIVES if more else ("",):
            only = ("--collectives", collective) if collective else ()
            done = lab.machine.corral(row, "bench", "run", file, *more, *only, *sizes, timeout=200)
            (lab.record.folder / f"{row}-{number}{collective}.json").write_text(done.stdout)


def small_collectives(lab: Lab, name: str) -> None:
    """All six over the containers' network."""
    if lab.gpus < 2:
        return
    row, file = f"{name}-collectives", f"/root/{name}.yaml"
    words = ("--smallest", "64M", "--largest", "256M", "--json")
    done = lab.machine.corral(row, "bench", "run", file, *words, timeout=240)
    (lab.record.folder / f"{row}.json").write_text(done.stdout)


def xid(lab: Lab, name: str) -> None:
    """A kernel that writes to an address that is not its own."""
    if not lab.gpus:
        return
    row, file = f"{name}-xid", f"/root/{name}.yaml"
    before = len(ran(["dmesg"]).stdout.splitlines())
    program = "/kit/tree/tests/gpu_machine/programs/bad_address.py"
    job = lab.machine.corral(row, "run", program, "--cluster", file, "-G", "1", "--folder", "none")
    if "CUDA error" not in job.text:
        job = lab.machine.corral(row, "run", program, "--cluster", file, "-G", "1")
    kernel = ran(["dmesg"])
    new = [line for line in kernel.stdout.splitlines()[before:] if "NVRM" in line or "Xid" in line]
    lab.record.add(row, "kernel", status=kernel.status, lines=new)
    log = lab.machine.root / "root/xid.log"
    log.write_text(job.text + "\n".join(new) + "\n")
    lab.machine.corral(row, "doctor", "--log", "/root/xid.log")
    lab.machine.corral(row, "doctor", file, "--health")
    lab.machine.corral(row, "doctor", file)


def holder(lab: Lab, name: str) -> None:
    """A process outside of any job that holds memory of a GPU."""
    if not lab.gpus:
        return
    row, file = f"{name}-holder", f"/root/{name}.yaml"
    program = "/shared/programs/holder.py"
    log = lab.record.folder / "holder.log"
    argv = ("podman", "exec", "--user", "65534", f"corral-{name}-node0", "python3", program, "40")
    process = lab.machine.start(log, *argv)
    for _ in range(60):
        time.sleep(0.5)
        if "holds" in log.read_text():
            break
    lab.machine.corral(row, "doctor", file, "--health")
    process.wait(60)
    lab.machine.corral(row, "doctor", file, "--health")


def down(lab: Lab, name: str) -> None:
    """``corral down``, and what it leaves compared with before."""
    row = f"{name}-down"
    lab.machine.corral(row, "down", f"/root/{name}.yaml", "--yes")
    lab.leftovers(row)


ROWS: dict[str, Callable[[Lab], None]] = {
    "facts": facts,
    "root": root,
    "broken-bundle": broken_bundle,
    "busy-gpu": busy_gpu,
    "declared": declared,
    "vm-here": here.refused,
    "vm-enroot": here.enroot,
    "here-start": here.start,
    "here-up": here.up,
    "here-more": here.more,
    "here-gpu": lambda lab: gpu_bench(here.within(lab), here.HERE),
    "here-jobs": here.jobs,
    "here-round": lambda lab: round_of(here.within(lab), here.HERE),
    "here-containers": here.contained,
    "here-figures": here.figures,
    "here-withheld": here.withheld,
    "here-train": lambda lab: training.rounds(here.within(lab), here.HERE),
    "here-xid": lambda lab: xid(here.within(lab), here.HERE),
    "here-down": here.down,
    "a2-up": lambda lab: up(lab, A, joined=False, more=True),
    "a2-gpu": lambda lab: gpu_bench(lab, A),
    "a2-containers": lambda lab: contained.row(lab, A),
    "a2-page": lambda lab: training.page(lab, A),
    "a2-train": lambda lab: training.rounds(lab, A),
    "a2-figures": lambda lab: training.figures(lab, A),
    "a2-round": lambda lab: round_of(lab, A),
    "a2-collectives": lambda lab: small_collectives(lab, A),
    "a2-down": lambda lab: down(lab, A),
    "b2-up": lambda lab: up(lab, B, joined=True, more=False),
    "b2-gpu": lambda lab: gpu_bench(lab, B),
    "b2-collectives": lambda lab: collectives(lab, B),
    "b2-requeue": lambda lab: training.requeue(lab, B),
    "b2-profile": lambda lab: training.profile(lab, B),
    "b2-xid": lambda lab: xid(lab, B),
    "b2-holder": lambda lab: holder(lab, B),
    "b2-down": lambda lab: down(lab, B),
}


def main() -> int:
    """Carry out the rows; the exit status is 1 when one of them broke."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kit", type=Path, required=True, help="folder with the unpacked kit")
    parser.add_argument("--out", type=Path, required=True, help="folder for the record")
    parser.add_argument("--root", type=Path, default=Path("/corral-root"), help="the changed root")
    parser.add_argument("--rows", default=",".join(ROWS), help="names, with commas between")
    parser.add_argument("--steps", type=int, default=900, help="of each compared training")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no row after these")
    options = parser.parse_args()
    record = Record(options.out)
    lab = Lab(Machine(options.kit, record, options.root), record, options.steps)
    lab.files = sorted(p.name for p in (options.kit / FILES).iterdir())
    began, broken = time.monotonic(), 0
    for name in options.rows.split(","):
        if time.monotonic() - began > options.seconds:
            record.add(name, "not begun: no time is left")
            continue
        start = time.monotonic()
        try:
            ROWS[name](lab)
        except (Exception, SystemExit):
            broken += 1
            record.add(name, "broke", error=traceback.format_exc()[-2000:])
        record.add(name, "row ended", seconds=round(time.monotonic() - start, 1))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
