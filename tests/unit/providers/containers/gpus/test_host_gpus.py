"""This machine's own GPUs for embedded nodes: answers of an H200, and what can be wrong."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from corral.api.config import rehearsal
from corral.errors import Code, CorralError
from corral.hosts.framing import Inquiry
from corral.inspect import nvidia
from corral.inspect.nvidia import HostGpu
from corral.inspect.question import shells
from corral.providers.base import Action
from corral.providers.containers.gpus import cdi, host_gpus
from corral.providers.containers.gpus.host_gpus import HostGpus
from corral.spec.load import load_text
from corral.spec.models import ClusterSpec
from corral.spec.nodes import nodes_of
from tests.unit.providers.containers.fake_podman import FakePodman, labels, options
from tests.unit.providers.embedded import test_embedded as embedded

podman = embedded.podman

RECORDED = Path(__file__).parents[4] / "recorded/host_gpus/h200.txt"
"""Corral's questions on a rented machine with one H200 (driver 580.159.04, Ubuntu 24.04), while a
process computed; other libraries of ldconfig's list are left out, the GPU's uuid is made up."""
UUID = "GPU-11111111-6d30-60fe-9148-553a8e79ef9c"


def answers(**changes: str) -> dict[str, str]:
    asked = Inquiry(shells(nvidia.QUESTIONS), word="corral-word")
    return asked.answers(RECORDED.read_text(), "here", "test") | changes


def cards(*names: str, mig: str = "Disabled") -> dict[str, str]:
    """Answers of a machine with a GPU of each model; nvidia-smi's order is not the files'."""
    buses = [f"{number:02x}:00.0" for number in range(len(names), 0, -1)]
    return {
        "listed": "\n".join(f"0000:{bus}" for bus in buses),
        "minors": "\n".join(
            f"Model: \t\t {name}\nBus Location: \t 0000:{bus}\nDevice Minor: \t {number}"
            for number, (name, bus) in enumerate(zip(names, buses, strict=True))
        ),
        "cards": "\n".join(
            f"00000000:{bus.upper()}, GPU-{number}, {name}, 143771, {mig}"
            for number, (name, bus) in reversed(list(enumerate(zip(names, buses, strict=True))))
        ),
        "users": "",
    }


def machine(*names: str, mig: str = "Disabled") -> HostGpus:
    return host_gpus.read(answers(**cards(*names, mig=mig)))


def test_an_h200_as_it_reported_itself() -> None:
    here = host_gpus.read(answers())
    (gpu,) = here.gpus
    assert gpu == HostGpu(
        "/dev/nvidia0", "0000:00:06.0", UUID, "NVIDIA H200", 143771, False, ("422 (python3)",)
    )
    volumes = here.volumes()
    folder = "/usr/local/nvidia"
    assert f"{folder}/lib64/libcuda.so.1:{folder}/lib64/libcuda.so.1:ro" in volumes
    assert f"{folder}/bin/nvidia-smi:{folder}/bin/nvidia-smi:ro" in volumes
    mounted = {volume.split(":")[1].rpartition("/")[2] for volume in volumes}
    assert {"libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4"} <= mounted
    assert not {name for name in mounted if "GL" in name or "encode" in name or "cudart" in name}


def test_libraries_end_in_the_drivers_version() -> None:
    """libnvidia-container 1.12.1 takes no others into a job's container (seen on an H200)."""
    here = replace(host_gpus.read(answers()), version="580.159.04")
    folder = "/usr/local/nvidia/lib64"
    assert f"{folder}/libcuda.so.1:{folder}/libcuda.so.580.159.04:ro" in here.volumes()
    libraries = [v.split(":")[1] for v in here.volumes() if "/lib64/" in v.split(":")[1]]
    assert all(path.endswith(".so.580.159.04") for path in libraries)
    assert len(set(libraries)) == len(libraries)


@pytest.mark.parametrize(
    ("changes", "words", "hint"),
    [
        ({"listed": ""}, "no NVIDIA GPU with a loaded driver", "stand-ins"),
        ({"listed": "", "amd": "/dev/kfd"}, "an AMD GPU", "stand-ins"),
        (  # a processor of AMD's with graphics, and a GPU without a driver
            {"listed": "", "amd": "/dev/kfd", "pci": "0x030000 0x2684 0000:01:00.0"},
            "no NVIDIA GPU with a loaded driver",
            "stand-ins",
        ),
        (
            {"cards": "Unable to determine the device handle for GPU0000:00:06.0: Unknown Error"},
            "does not list the GPU at 0000:00:06.0",
            "Xid 79",
        ),
        (
            {"programs": "", "cards": "timeout: failed to run command 'nvidia-smi'"},
            "nvidia-smi is not installed",
            "PATH",
        ),
        (
            {"device-files": "/dev/nvidia0 /dev/nvidiactl"},
            "/dev/nvidia-uvm does not exist",
            "modprobe",
        ),
        ({"libraries": "libc.so.6 (libc6,x86-64) => /lib/libc.so.6"}, "libcuda.so.1", "ldconfig"),
    ],
)
def test_what_makes_a_machines_gpus_unusable(
    changes: dict[str, str], words: str, hint: str
) -> None:
    with pytest.raises(CorralError, match=words) as caught:
        host_gpus.read(answers(**changes))
    assert caught.value.code is Code.PROVIDER_FAILED
    assert hint in caught.value.hint


def test_a_cdi_specification_brings_libraries_that_ldconfig_does_not_list() -> None:
    lacking = answers(libraries="libc.so.6 (libc6,x86-64) => /lib/libc.so.6")
    known = cdi.Devices({"/dev/nvidia0": "nvidia.com/gpu=0"})
    here = host_gpus.read(lacking, known)
    assert here.options(here.gpus) == ["--device", "nvidia.com/gpu=0"]
    for useless, words in (
        (cdi.NOTHING, "no CDI specification"),
        (cdi.Devices({"/dev/nvidia1": "nvidia.com/gpu=1"}), "lacks a GPU"),
    ):
        with pytest.raises(CorralError, match=f"libcuda.so.1, and CDI is not used .*{words}"):
            host_gpus.read(lacking, useless)


def test_files_are_numbered_by_the_driver_and_not_by_nvidia_smi() -> None:
    here = machine("NVIDIA A", "NVIDIA B")
    assert [(gpu.device, gpu.name) for gpu in here.gpus] == [
        ("/dev/nvidia0", "NVIDIA A"),
        ("/dev/nvidia1", "NVIDIA B"),
    ]


def spec(nodes: str = "node[0-1]", count: int = 1, kind: str = "h200") -> ClusterSpec:
    gpu = {"type": kind, "count": count, "source": "host"}
    return embedded.spec(group={"nodes": nodes, "gpu": gpu})


def divided(
    cluster: ClusterSpec,
    here: HostGpus,
    held: Mapping[str, Mapping[str, str]] | None = None,
    others: Mapping[str, str] | None = None,
) -> dict[str, list[str]]:
    gpus_of = host_gpus.divide(nodes_of(cluster), here, held or {}, others or {})
    return {node: [gpu.device for gpu in gpus] for node, gpus in gpus_of.items()}


def test_gpus_are_divided_in_the_order_of_the_file() -> None:
    here = machine(*["NVIDIA H200"] * 4)
    assert divided(spec(count=2), here) == {
        "node0": ["/dev/nvidia0", "/dev/nvidia1"],
        "node1": ["/dev/nvidia2", "/dev/nvidia3"],
    }


def test_a_node_keeps_its_gpus_when_others_come_and_go() -> None:
    here = machine(*["NVIDIA H200"] * 3)
    held = {"node1": {"GPU-0": "/dev/nvidia0"}}
    assert divided(spec("node[0-2]"), here, held) == {
        "node0": ["/dev/nvidia1"],
        "node1": ["/dev/nvidia0"],
        "node2": ["/dev/nvidia2"],
    }


def test_gpus_of_another_cluster_are_left_alone() -> None:
    here = machine(*["NVIDIA H200"] * 2)
    others = {"GPU-0": "corral-lab-node0"}
    assert divided(spec("node0"), here, others=others) == {"node0": ["/dev/nvidia1"]}
    with pytest.raises(
        CorralError, match="node1 declares 1 GPUs of type h200, 0 are free of 2"
    ) as caught:
        divided(spec(), here, others={"GPU-1": "corral-lab-node0"})
    assert "GPU-1 is held by corral-lab-node0" in caught.value.tail


def test_the_type_chooses_among_models() -> None:
    here = machine("NVIDIA GeForce RTX 4090", "NVIDIA H200", "NVIDIA GeForce RTX 4090")
    assert divided(spec(kind="rtx4090"), here) == {
        "node0": ["/dev/nvidia0"],
        "node1": ["/dev/nvidia2"],
    }
    with pytest.raises(CorralError, match=r"declares 1 GPUs of type slot, 0 are free of 3"):
        divided(spec(kind="slot"), here)


@pytest.mark.parametrize(
    ("here", "words", "hint"),
    [
        (machine("NVIDIA H200", mig="Enabled"), "is in MIG mode", "-mig 0"),
        (host_gpus.read(answers()), r"in use by process 422 \(python3\)", "end it"),
        (machine("NVIDIA H200"), r"declares 2 GPUs of type h200, 1 are free of 1", "fewer"),
    ],
)
def test_a_gpu_that_a_node_cannot_have(here: HostGpus, words: str, hint: str) -> None:
    count = 2 if "declares" in words else 1
    with pytest.raises(CorralError, match=words) as caught:
        divided(spec("node0", count=count), here)
    assert hint in caught.value.hint


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[HostGpus]:
    """What this machine has; tests change the list's only item. It counts how often it is asked."""
    machines = [machine("NVIDIA H200", "NVIDIA H200")]

    async def observed() -> HostGpus:
        machines.append(machines[0])
        return machines[0]

    monkeypatch.setattr(host_gpus, "host_gpus", observed)
    monkeypatch.setattr(host_gpus, "driver_version", lambda: "580.159.04")
    return machines


def test_nodes_are_made_with_their_gpus_and_stay(podman: FakePodman, here: list[HostGpus]) -> None:
    actions = embedded.bring_up(podman, spec())
    assert [action.summary for action in actions] == [
        f"container corral-lab-node{n} does not exist yet; it gets this machine's /dev/nvidia{n} "
        "NVIDIA H200 by device files (no CDI specification)"
        for n in range(2)
    ]
    runs = [call for call in podman.calls if call[0] == "run"]
    assert [labels(call)["corral.gpus"] for call in runs] == [
        "GPU-0=/dev/nvidia0",
        "GPU-1=/dev/nvidia1",
    ]
    assert all(
        "/usr/local/nvidia/lib64/libcuda.so.1" in "".join(options(c, "--volume")) for c in runs
    )
    assert "mknod" not in "".join(runs[0])
    asked = len(here)
    assert embedded.plan(podman, spec()) == {}
    assert len(here) == asked, "nvidia-smi takes a second, which no other verb needs to wait"


def test_cdi_gives_nodes_the_driver_where_a_specification_has_all_their_gpus(
    podman: FakePodman, here: list[HostGpus]
) -> None:
    names = {f"/dev/nvidia{n}": f"nvidia.com/gpu=GPU-{n}" for n in range(2)}
    here[0] = replace(here[0], cdi=cdi.Devices(names))
    actions = embedded.bring_up(podman, spec())
    assert actions[1].summary.endswith("this machine's /dev/nvidia1 NVIDIA H200 by CDI")
    runs = [call for call in podman.calls if call[0] == "run"]
    assert [options(call, "--device") for call in runs] == [
        ["nvidia.com/gpu=GPU-0"],
        ["nvidia.com/gpu=GPU-1"],
    ]
    assert not any("libcuda" in volume for call in runs for volume in options(call, "--volume"))
    assert "rm -f $f" in "".join(runs[1]), "a privileged container has the other GPUs' files too"


def test_a_specification_without_one_of_the_gpus_is_not_used(
    podman: FakePodman, here: list[HostGpus]
) -> None:
    here[0] = replace(here[0], cdi=cdi.Devices({"/dev/nvidia0": "nvidia.com/gpu=0"}))
    actions = embedded.bring_up(podman, spec("node0", count=2))
    assert actions[0].summary.endswith("by device files (its CDI specification lacks a GPU)")
    (run,) = [call for call in podman.calls if call[0] == "run"]
    assert options(run, "--device") == []


def test_slurm_gets_the_files_that_the_node_has(podman: FakePodman, here: list[HostGpus]) -> None:
    embedded.bring_up(podman, spec())

    async def devices() -> tuple[str, ...]:
        provider = embedded.made(podman, spec())
        await provider.read_machines()
        return provider.traits("node1").gpu_devices

    assert asyncio.run(devices()) == ("/dev/nvidia1",)


def test_two_clusters_share_no_gpu(podman: FakePodman, here: list[HostGpus]) -> None:
    embedded.bring_up(podman, spec("node0"))
    other = spec("node0").model_copy(update={"name": "other"})
    embedded.bring_up(podman, other)
    held = podman.containers["corral-other-node0"]["Labels"]["corral.gpus"]  # type: ignore[index]
    assert held == "GPU-1=/dev/nvidia1"


def test_another_driver_makes_the_nodes_again(
    podman: FakePodman, here: list[HostGpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded.bring_up(podman, spec())
    monkeypatch.setattr(host_gpus, "driver_version", lambda: "590.10")
    assert set(embedded.plan(podman, spec()).values()) == {Action.RECREATE}


def test_stand_ins_and_gpus_of_this_machine_are_never_taken_for_each_other(
    podman: FakePodman, here: list[HostGpus]
) -> None:
    embedded.bring_up(podman, spec())
    stand_ins = embedded.spec(group={"nodes": "node[0-1]", "gpu": {"type": "h200", "count": 1}})
    assert set(embedded.plan(podman, stand_ins).values()) == {Action.RECREATE}


def test_nodes_that_run_stay_usable_when_more_gpus_are_declared_than_there_are(
    podman: FakePodman, here: list[HostGpus]
) -> None:
    embedded.bring_up(podman, spec())
    more = spec("node[0-2]")

    async def observed() -> tuple[CorralError | None, dict[str, Action]]:
        provider = embedded.made(podman, more)
        seen = await provider.read_machines()
        return seen.refusal, {action.node: action.action for action in provider.plan(seen)}

    refusal, actions = asyncio.run(observed())
    assert refusal is not None
    assert "0 are free of 2" in refusal.message
    assert actions == {"node2": Action.CREATE}
    with pytest.raises(CorralError, match="0 are free of 2"):
        embedded.bring_up(podman, more)
    assert len(podman.containers) == 2


def test_a_broken_driver_does_not_hide_nodes_that_run(
    podman: FakePodman, here: list[HostGpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded.bring_up(podman, spec())

    async def broken() -> HostGpus:
        raise CorralError(Code.PROVIDER_FAILED, "the driver hangs")

    monkeypatch.setattr(host_gpus, "host_gpus", broken)
    assert embedded.plan(podman, spec()) == {}


@pytest.mark.parametrize("provider", ["ssh", "lambda"])
def test_machines_that_have_their_own_gpus_take_no_source(provider: str) -> None:
    text = (
        f"corral: v1\nname: lab\ngroups:\n  - name: a\n    provider: {provider}\n    nodes: n0\n"
        "    gpu: {type: h100, count: 1, source: host}\n"
    )
    assert "gpu-source" in {finding.rule for finding in load_text(text, "lab.yaml").findings}


@pytest.mark.parametrize(
    ("values", "nodes", "gpu"),
    [
        ({}, "node[0-3]", ("h100", 1, "host")),
        ({"gpu_count": 2}, "node[0-1]", ("h100", 2, "host")),
        ({"gpu_count": 4}, "node0", ("h100", 4, "host")),
        ({"gpu_count": 8}, "node0", ("h100", 8, "host")),
        ({"gpu_count": 2, "nodes": "node0"}, "node0", ("h100", 2, "host")),
        ({"gpu_count": 2, "gpu_source": "stand-in"}, "node[0-2]", ("slot", 2, "stand-in")),
        ({"gpu_type": "slot"}, "node[0-2]", ("slot", 2, "stand-in")),
    ],
)
def test_a_starting_file_takes_the_machines_gpus(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    values: dict[str, str | int],
    nodes: str,
    gpu: tuple[str, int, str],
) -> None:
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "information").write_text("Model: \t\t NVIDIA H100 80GB HBM3\n")
    monkeypatch.setattr(host_gpus, "_KNOWN", tmp_path)
    spec = load_text(rehearsal.starting_file("laptop", **values), "laptop.yaml").spec
    assert spec is not None
    group = spec.groups[0]
    assert group.gpu is not None
    assert (group.nodes, (group.gpu.type, group.gpu.count, group.gpu.source)) == (nodes, gpu)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_node_sees_its_own_gpus_and_no_others(tmp_path: Path) -> None:
    """The script in a mount namespace whose /dev and driver folder are made up.

    That NVML and CUDA skip what it hides was seen on an H200: docs/measurements.
    """
    gpus = machine("NVIDIA H200", "NVIDIA H200", "NVIDIA H200").gpus
    script = str(host_gpus.entry(gpus[1:2]))
    proc, dev = tmp_path / "proc", tmp_path / "dev"
    for gpu in gpus:
        (proc / "gpus" / gpu.bus).mkdir(parents=True)
    (proc / "params").write_text("RmLogonRC: 1\nModifyDeviceFiles: 1\n")
    (proc / "version").write_text("580.159.04\n")
    (dev / "nvidia-caps").mkdir(parents=True)
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia-modeset"):
        (dev / name).touch()
    for real, made in (
        ("/proc/driver/nvidia", proc),
        ("/dev/", dev),
        ("/run/corral-nvidia", tmp_path / "run"),
        ("/usr/local", tmp_path / "local"),
        ("/etc/ld.so.conf.d", tmp_path),
        ("\n  ldconfig\n", "\n"),
    ):
        script = script.replace(real, f"{made}/" if real.endswith("/") else str(made))
    script = script.replace(f"{dev}/nvidia1", "/dev/nvidia1").replace(
        "/dev/nvidia1", f"{dev}/nvidia1"
    )
    for folder in ("local/nvidia/bin", "local/nvidia/lib64", "local/bin"):
        (tmp_path / folder).mkdir(parents=True)
    show = f"ls {dev}; ls {proc}/gpus; grep Modify {proc}/params"
    argv = ["unshare", "--mount", "--propagation=private", "sh", "-euc", f"{script}\n{show}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == [
        "nvidia-uvm",
        "nvidia1",
        "nvidiactl",
        gpus[1].bus,
        "ModifyDeviceFiles: 0",
        "",
    ]


def test_a_gpu_that_is_gone_is_replaced(podman: FakePodman, here: list[HostGpus]) -> None:
    embedded.bring_up(podman, spec("node0"))
    first = here[0]
    other = replace(first.gpus[0], uuid="GPU-9")
    held = {"node0": {"GPU-0": "/dev/nvidia0"}}
    gpus_of = host_gpus.divide(nodes_of(spec("node0")), replace(first, gpus=(other,)), held, {})
    assert [gpu.uuid for gpu in gpus_of["node0"]] == ["GPU-9"]
