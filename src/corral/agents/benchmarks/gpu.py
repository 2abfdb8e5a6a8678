# Installed as: the job's folder; within proof-node.sh (api/evidence/collective_bench,
# api/evidence/node_bench, roles/services/proof)
# Started by: srun, in a job of measurements; corral-proof-round
# Runs as: the user who starts the benchmark; corral-proof
# pyright: basic, reportMissingImports=false
# It runs under the node's own PyTorch, which is not installed where Corral is checked.
"""Measures each GPU of this machine: matrices, memory, copies, clocks under load, errors.

Run alone (``python3 gpu.py``, ``python3 gpu.py --json``) or by Slurm, one process per node.
Without a GPU it prints that and ends with status 1. The driver's values come from nvidia-smi; a
field that a driver does not know is null. Nothing is set, reset or written.

Standard library of Python >= 3.8 and PyTorch >= 1.13 only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time

MARK = os.environ.get("CORRAL_REPORT", "@@corral-") + "gpus "
GIB = 1 << 30
SHARE = 0.25  # of the free memory, at most, for all that one measurement allocates
DTYPES = ("bfloat16", "float16", "tf32", "float32", "float64")
SIDE = {"bfloat16": 8192, "float16": 8192, "tf32": 8192, "float32": 8192, "float64": 4096}
# nvidia-smi --help-query-gpu: ours, theirs; a second name is an older driver's.
STATE = {
    "uuid": ("uuid",),
    "bus": ("pci.bus_id",),
    "driver": ("driver_version",),
    "sm_mhz": ("clocks.sm",),
    "sm_max_mhz": ("clocks.max.sm",),
    "memory_mhz": ("clocks.mem",),
    "memory_max_mhz": ("clocks.max.mem",),
    "celsius": ("temperature.gpu",),
    "watts": ("power.draw",),
    "watts_limit": ("power.limit", "enforced.power.limit"),
    "watts_default": ("power.default_limit",),
    "reasons": ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
    "pcie_gen": ("pcie.link.gen.current",),
    "pcie_gen_max": ("pcie.link.gen.max",),
    "pcie_width": ("pcie.link.width.current",),
    "pcie_width_max": ("pcie.link.width.max",),
    "ecc": ("ecc.mode.current",),
    "ecc_corrected": ("ecc.errors.corrected.volatile.total",),
    "ecc_uncorrected": ("ecc.errors.uncorrected.volatile.total",),
    "ecc_uncorrected_ever": ("ecc.errors.uncorrected.aggregate.total",),
    "mig": ("mig.mode.current",),
    "persistence": ("persistence_mode",),
}
REMAPPED = ("correctable", "uncorrectable", "pending", "failure")
# Behind its time, where a message begins: the kernel also prints names of files that users made.
XID = re.compile(
    r"\[ *\d+\.\d+\] ?(?:\[ *[TC]\d+\] ?|\S+ kernel: )?"
    r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+),?\s*(.*)"
)


def asked(words: list, timeout: float = 30) -> str:
    """What a program prints, "" when it is not there or fails."""
    try:
        process = subprocess.run(
            words, check=False, capture_output=True, text=True, timeout=timeout
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout if process.returncode == 0 else ""


def number(text: str):
    """A number, a word, or None for what the driver does not report."""
    text = text.strip()
    if not text or text.startswith(("[", "N/A", "Unknown")):
        return None
    try:
        return float(text) if "." in text else int(text, 0)
    except ValueError:
        return text


class Driver:
    """What nvidia-smi reports, by the GPU's bus."""

    def __init__(self) -> None:
        self.there = shutil.which("nvidia-smi") is not None
        self.fields = {}
        if self.there:
            known = asked(["nvidia-smi", "--help-query-gpu"])
            for mine, theirs in STATE.items():
                # A field that it does not know makes the entire query fail.
                self.fields[mine] = next((t for t in theirs if f'"{t}"' in known), None)

    def state(self, names=tuple(STATE)) -> dict:
        """Fields of each GPU by its bus."""
        supported = [n for n in names if self.fields.get(n)]
        if not supported or not self.fields.get("bus"):
            return {}
        query = ",".join(["pci.bus_id", *(self.fields[n] for n in supported)])
        text = asked(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"])
        states = {}
        for line in text.splitlines():
            bus, *cells = (cell.strip() for cell in line.split(","))
            if len(cells) == len(supported):
                states[short(bus)] = dict(zip(supported, map(number, cells)))  # noqa: B905 - 3.8
        return states

    def remapped(self) -> dict:
        """Remapped rows of each GPU by its bus; none where the GPU has no such rows."""
        fields = ",".join(f"remapped_rows.{name}" for name in REMAPPED)
        words = ["nvidia-smi", f"--query-remapped-rows=gpu_bus_id,{fields}"]
        text = asked([*words, "--format=csv,noheader"]) if self.there else ""
        rows = {}
        for line in text.splitlines():
            bus, *cells = (cell.strip() for cell in line.split(","))
            if len(cells) == len(REMAPPED):
                rows[short(bus)] = dict(zip(REMAPPED, map(number, cells)))  # noqa: B905 - 3.8
        return rows


def short(bus: str) -> str:
    """``00000000:1B:00.0`` and ``0000:1b:00`` are the same: ``1b:00``, with a domain above 0."""
    domain, _, rest = bus.strip().lower().partition(":")
    rest = rest.partition(".")[0]
    return rest if not domain.strip("0") else f"{domain.lstrip('0')}:{rest}"


class Watch(threading.Thread):
    """Reads clocks, power and temperature while a GPU works."""

    def __init__(self, driver: Driver, bus: str) -> None:
        super().__init__(daemon=True)
        self.driver, self.bus, self.seen, self.end = driver, bus, [], threading.Event()

    def run(self) -> None:
        """Poll until the measurement ends; nvidia-smi itself takes a part of a second."""
        while not self.end.wait(0.05):
            names = ("sm_mhz", "memory_mhz", "watts", "celsius", "reasons", "pcie_gen")
            sample = self.driver.state((*names, "pcie_width")).get(self.bus)
            if sample and not self.end.is_set():
                self.seen.append(sample)

    def summary(self) -> dict:
        """The median of each number, and all reasons that were given for a lower clock."""
        self.end.set()
        self.join(35)
        record: dict = {"samples": len(self.seen)}
        for name in ("sm_mhz", "memory_mhz", "watts", "celsius", "pcie_gen", "pcie_width"):
            values = [s[name] for s in self.seen if isinstance(s.get(name), (int, float))]
            record[name] = statistics.median(values) if values else None
        # A reason counts when more than half of the polls show it: a clock takes time to rise.
        bits = [s["reasons"] for s in self.seen if isinstance(s.get("reasons"), int)]
        common = [b for b in range(64) if sum(x >> b & 1 for x in bits) * 2 > len(bits)]
        record["reasons"] = sum(1 << b for b in common) if bits else None
        return record


def xids() -> dict:
    """The kernel's messages of GPU errors, and whether its log could be read."""
    for words in (["dmesg"], ["journalctl", "-k", "-q", "-o", "short-monotonic", "--no-pager"]):
        text = asked(words)
        if text:
            errors = [
                {"bus": short(m[1]), "xid": int(m[2]), "text": m[3][:200]}
                for m in map(XID.match, text.split("\n"))
                if m
            ]
            return {"readable": True, "found": errors[-50:]}
    return {"readable": False, "found": []}


class Card:
    """One GPU under measurement."""

    def __init__(self, torch, index: int, options: argparse.Namespace) -> None:
        self.torch, self.index, self.options = torch, index, options
        self.device = torch.device("cuda", index)
        torch.cuda.set_device(self.device)
        self.free = torch.cuda.mem_get_info()[0]

    def timed(self, work, seconds: float) -> list:
        """Seconds of each turn, by the GPU's own clock, for about so long."""
        torch = self.torch
        for _ in range(3):
            work()
        torch.cuda.synchronize()
        begun, turns = time.perf_counter(), []
        while time.perf_counter() - begun < seconds or len(turns) < 3:  # noqa: PLR2004
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(11)]
            marks[0].record()
            for mark in marks[1:]:
                work()
                mark.record()
            marks[-1].synchronize()
            turns += [a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])]  # noqa: B905, RUF007 - 3.8
        return turns

    def matrix(self, name: str) -> dict:
        """Product of two square matrices of normal numbers; equal products must be equal bits."""
        torch = self.torch
        kind = getattr(torch, "float32" if name == "tf32" else name)
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        width = torch.tensor([], dtype=kind).element_size()
        side = SIDE[name]
        while side > 1024 and 4 * side * side * width > self.free * SHARE:  # noqa: PLR2004
            side //= 2
        torch.manual_seed(1)
        # Normal numbers: zeros draw less power and would show a clock that no training sees.
        a = torch.randn(side, side, device=self.device).to(kind)
        b = torch.randn(side, side, device=self.device).to(kind)
        out = torch.empty(side, side, device=self.device, dtype=kind)
        torch.matmul(a, b, out=out)
        first = out.clone()
        turns = self.timed(lambda: torch.matmul(a, b, out=out), self.options.seconds)
        wrong = int((out != first).sum().item())
        rate = [2 * side**3 / t / 1e12 for t in turns]
        late = rate[len(rate) // 2 :]  # the clock has settled by then
        return {
            "side": side,
            "tflops": statistics.median(late),
            "best_tflops": max(rate),
            "turns": len(rate),
            "wrong": wrong,
        }

    def memory(self) -> dict:
        """GB/s of a copy within the memory: each byte is read and written."""
        torch = self.torch
        size = min(4 * GIB, int(self.free * SHARE / 2)) // 4 * 4
        a = torch.empty(size // 4, dtype=torch.float32, device=self.device).fill_(1.0)
        b = torch.empty_like(a)
        turns = self.timed(lambda: b.copy_(a), self.options.seconds)
        return {"bytes": size, "gb_s": 2 * size / statistics.median(turns) / 1e9}

    def host(self) -> dict:
        """GB/s from and to pinned memory of the host."""
        torch = self.torch
        size = min(GIB // 2, int(self.free * SHARE))
        try:
            pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        except RuntimeError:  # the memory that may be locked is limited
            return {"bytes": size, "to_gb_s": None, "from_gb_s": None}
        there = torch.empty(size, dtype=torch.uint8, device=self.device)
        spent = self.options.seconds / 2
        to = self.timed(lambda: there.copy_(pinned, non_blocking=True), spent)
        back = self.timed(lambda: pinned.copy_(there, non_blocking=True), spent)
        return {
            "bytes": size,
            "to_gb_s": size / statistics.median(to) / 1e9,
            "from_gb_s": size / statistics.median(back) / 1e9,
        }


def peers(torch, options: argparse.Namespace) -> list:
    """GB/s from each GPU to each other, and whether they reach each other directly."""
    count, pairs = torch.cuda.device_count(), []
    for a in range(count):
        for b in range(count):
            if a == b:
                continue
            card = Card(torch, a, options)
            size = min(GIB, int(card.free * SHARE))
            here = torch.empty(size, dtype=torch.uint8, device=f"cuda:{a}").fill_(a + 1)
            there = torch.zeros(size, dtype=torch.uint8, device=f"cuda:{b}")
            turns = card.timed(lambda t=there, h=here: t.copy_(h), options.seconds / 4)
            torch.cuda.synchronize(b)
            wrong = int((there != a + 1).sum().item())
            direct = bool(torch.cuda.can_device_access_peer(a, b))
            rate = size / statistics.median(turns) / 1e9
            pairs.append({"from": a, "to": b, "gb_s": rate, "direct": direct, "wrong": wrong})
            del here, there
            torch.cuda.empty_cache()
    return pairs


def bus_of(torch, index: int) -> str:
    """The GPU's place on the bus, as ``short`` writes it."""
    properties = torch.cuda.get_device_properties(index)
    if hasattr(properties, "pci_bus_id"):  # PyTorch >= 2.6
        return short(
            f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
        )
    text = asked(["nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader"])
    listed = [short(line) for line in text.splitlines()]
    return listed[index] if index < len(listed) else str(index)


def measure(torch, driver: Driver, options: argparse.Namespace) -> list:
    """All GPUs, one after another."""
    records, before, rows = [], driver.state(), driver.remapped()
    for index in range(torch.cuda.device_count()):
        card, bus = Card(torch, index, options), bus_of(torch, index)
        props = torch.cuda.get_device_properties(index)
        kinds = [d for d in DTYPES if d != "bfloat16" or torch.cuda.is_bf16_supported()]
        kinds = [d for d in kinds if d != "tf32" or props.major >= 8]  # noqa: PLR2004
        record = {
            "index": index,
            "bus": bus,
            "name": props.name,
            "bytes": props.total_memory,
            "free": card.free,
            "capability": f"{props.major}.{props.minor}",
            "before": before.get(bus, {}),
            "remapped": rows.get(bus),
        }
        watch = Watch(driver, bus)
        watch.start()
        record["matrix"] = {name: card.matrix(name) for name in kinds}
        record["load"] = watch.summary()
        torch.cuda.empty_cache()
        record["memory"] = card.memory()
        torch.cuda.empty_cache()
        record["host"] = card.host()
        torch.cuda.empty_cache()
        record["after"] = driver.state().get(bus, {})
        records.append(record)
    return records


def none(reason: str) -> dict:
    """The result of a machine without a usable GPU."""
    node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    return {"node": node, "gpus": [], "peers": [], "reason": f"no GPU: {reason}"}


def run(options: argparse.Namespace) -> dict:
    """Measure this machine."""
    try:
        import torch  # noqa: PLC0415
    except ImportError as error:
        return none(f"PyTorch cannot be loaded ({error})")
    driver = Driver()
    if not torch.cuda.is_available():
        built = torch.version.cuda or "no CUDA"
        seen = "nvidia-smi is there" if driver.there else "nvidia-smi is not there"
        return none(f"PyTorch {torch.__version__} (built for {built}) sees none; {seen}")
    begun = time.time()
    gpus = measure(torch, driver, options)
    return {
        "node": os.environ.get("SLURMD_NODENAME", socket.gethostname()),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpus": gpus,
        "peers": peers(torch, options) if len(gpus) > 1 else [],
        "xids": xids(),
        "seconds": round(time.time() - begun, 1),
        "reason": "",
    }


def table(results: dict) -> str:
    """For people."""
    out = []
    for gpu in results["gpus"]:
        load = gpu["load"]
        rates = ", ".join(f"{k} {v['tflops']:.0f}" for k, v in gpu["matrix"].items())
        to, back = gpu["host"]["to_gb_s"] or 0, gpu["host"]["from_gb_s"] or 0
        out += [
            f"GPU {gpu['index']} {gpu['name']} ({gpu['bus']})",
            f"  TFLOP/s: {rates}",
            f"  memory {gpu['memory']['gb_s']:.0f} GB/s, host to device {to:.1f} GB/s, back "
            f"{back:.1f} GB/s",
            f"  under load: {load['sm_mhz']} MHz, {load['watts']} W, {load['celsius']} C, "
            f"reasons {load['reasons']}",
        ]
    out += [
        f"GPU {p['from']} to {p['to']}: {p['gb_s']:.0f} GB/s"
        + ("" if p["direct"] else " by the host")
        for p in results["peers"]
    ]
    return "\n".join(out)


def main() -> int:
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--line", action="store_true", help="the same behind a mark, for Corral")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each thing measured")
    options = parser.parse_args()
    results = run(options)
    if options.line:
        sys.stdout.write(f"{MARK}{json.dumps(results)}\n")
        return 0  # Corral judges it
    if options.json:
        sys.stdout.write(f"{json.dumps(results, indent=1)}\n")
    else:
        sys.stdout.write(f"{table(results)}\n")
    if results["reason"]:
        sys.stderr.write(f"{results['reason']}\n")
    return 1 if results["reason"] else 0


if __name__ == "__main__":
    sys.exit(main())
