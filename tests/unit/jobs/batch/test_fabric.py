"""The environment on a fabric: the real shell text over a made sysfs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from corral.hosts.quote import join, sh
from corral.jobs.batch.fabric import (
    YOURS,
    Rdma,
    Setting,
    declared,
    explain_script,
    merged_settings,
    rdma_of,
    setting_rows,
    settings,
    sourced,
)
from corral.roles.machine.nccl_plugin import PLUGINS, TCPXO
from corral.spec.load import load_or_raise

EXAMPLES = Path(__file__).parents[4] / "examples"

IP = """#!/bin/sh
case "$*" in "-o addr show to 10.0.0.5") echo "2: eth7    inet 10.0.0.5/24" ;; esac
"""


class Machine:
    """A sysfs of RDMA devices."""

    def __init__(self, folder: Path) -> None:
        self.sys = folder / "sys"
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.bin / "ip").write_text(IP)
        (self.bin / "ip").chmod(0o755)
        self.tcpxo = folder / "tcpxo"

    def port(
        self,
        name: str,
        *,
        layer: str = "InfiniBand",
        rate: str = "400 Gb/sec (4X NDR)",
        state: str = "4: ACTIVE",
        gids: dict[int, str] | None = None,
    ) -> None:
        port = self.sys / "class/infiniband" / name / "ports/1"
        (port / "gid_attrs/types").mkdir(parents=True)
        (port / "gids").mkdir()
        (port / "state").write_text(f"{state}\n")
        (port / "link_layer").write_text(f"{layer}\n")
        (port / "rate").write_text(f"{rate}\n")
        for index, gid in (gids or {}).items():
            kind, _, address = gid.partition("/")
            (port / f"gid_attrs/types/{index}").write_text(f"{kind}\n")
            (port / f"gids/{index}").write_text(f"{address}\n")

    def pci(self, place: str, name: str = "") -> None:
        """A GPU, or the adapter ``name``, at a place below the PCI roots."""
        folder = self.sys / "devices" / place
        folder.mkdir(parents=True)
        if name:
            (self.sys / "class/infiniband" / name / "device").symlink_to(folder)
            return
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")
        (self.sys / "bus/pci/devices").mkdir(parents=True, exist_ok=True)
        (self.sys / "bus/pci/devices" / folder.name).symlink_to(folder)

    def explained(
        self, fabric: str = "", *, interface: str = "", rdma: Rdma | None = None, **env: str
    ) -> dict[str, Setting]:
        script = settings(
            interface=interface,
            fabric=fabric,
            threads=4,
            rdma=rdma or Rdma(),
            sys=str(self.sys),
            folder=str(self.tcpxo),
            report=True,
        )
        ran = subprocess.run(
            ["/bin/sh", "-c", explain_script("10.0.0.5", env, script)],
            env={"PATH": f"{self.bin}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stderr == ""
        return {s.name: s for s in merged_settings({"node0": setting_rows(ran.stdout)})}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_plain_lan(machine: Machine) -> None:
    explained = machine.explained()
    assert explained["GLOO_SOCKET_IFNAME"].value == "eth7"
    assert explained["NCCL_SOCKET_IFNAME"] == Setting(
        "NCCL_SOCKET_IFNAME", "=eth7", "holds the address of the first node", "node0"
    )
    assert "NCCL_IB_HCA" not in explained


def test_the_declared_interface(machine: Machine) -> None:
    assert machine.explained(interface="bond0")["GLOO_SOCKET_IFNAME"].value == "bond0"


def test_values_of_the_user_win_and_are_named(machine: Machine) -> None:
    explained = machine.explained(NCCL_SOCKET_IFNAME="it's mine", OMP_NUM_THREADS="")
    assert explained["NCCL_SOCKET_IFNAME"].value == "it's mine"
    assert explained["NCCL_SOCKET_IFNAME"].reason == YOURS
    assert (explained["OMP_NUM_THREADS"].value, explained["OMP_NUM_THREADS"].reason) == ("", YOURS)


def test_the_fastest_active_ports_of_the_kind(machine: Machine) -> None:
    """A DGX: compute ports at 400 Gb/s, one for storage at 200, one down, one in Ethernet mode."""
    machine.port("mlx5_0")
    machine.port("mlx5_1", rate="200 Gb/sec (4X HDR)")
    machine.port("mlx5_2", state="1: DOWN")
    machine.port("mlx5_3", layer="Ethernet")
    machine.port("mlx5_4")
    adapters = machine.explained("infiniband")["NCCL_IB_HCA"]
    assert adapters.value == "=mlx5_0:1,mlx5_4:1"
    assert "400 Gb/s" in adapters.reason
    assert machine.explained("")["NCCL_IB_HCA"].value == adapters.value
    assert "NCCL_IB_HCA" not in machine.explained("ethernet")


V2 = "RoCE v2/0000:0000:0000:0000:0000:ffff:0a00:0005"
V1 = "IB/RoCE v1/0000:0000:0000:0000:0000:ffff:0a00:0005"
SIX = "RoCE v2/fe80:0000:0000:0000:0000:0000:0000:0001"


def test_roce_takes_the_index_that_all_ports_share(machine: Machine) -> None:
    for name in ("rdma0", "rdma1"):
        machine.port(name, layer="Ethernet", gids={0: SIX, 2: V1, 3: V2})
    explained = machine.explained("roce")
    assert explained["NCCL_IB_HCA"].value == "=rdma0:1,rdma1:1"
    assert explained["NCCL_IB_GID_INDEX"].value == "3"
    machine.port("rdma2", layer="Ethernet", gids={5: V2})
    assert "NCCL_IB_GID_INDEX" not in machine.explained("roce")


def test_the_profile_of_a3_mega(machine: Machine) -> None:
    machine.tcpxo.mkdir()
    (machine.tcpxo / "nccl-env-profile.sh").write_text(
        "export NCCL_PROTO=Simple,LL128 NCCL_BUFFSIZE=8388608 PATH=/evil NCCL_SOCKET_IFNAME=eth0\n"
        'export LD_LIBRARY_PATH="$NCCL_LIB_DIR"\n'
    )
    explained = machine.explained(NCCL_BUFFSIZE="1")
    assert explained["NCCL_PROTO"].value == "Simple,LL128"
    assert explained["LD_LIBRARY_PATH"].value == str(machine.tcpxo)
    assert explained["NCCL_BUFFSIZE"].reason == YOURS
    assert explained["NCCL_SOCKET_IFNAME"].value == "=eth7"
    assert "PATH" not in explained


# As GPUDirect-TCPXO's installer writes it, shortened.
PROFILE = """\
echo "sets NCCL up"
export NCCL_FASTRAK_IFNAME=eth1,eth2 NCCL_BUFFSIZE=8388608 CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
"""


def a3(machine: Machine, *, report: bool, several: bool = True) -> str:
    """The environment of a declared A3 Mega, its device folder in the machine's."""
    script = settings(
        interface="",
        fabric="tcpxo",
        threads=4,
        sys=str(machine.sys),
        folder=str(machine.tcpxo),
        several=several,
        report=report,
    )
    return str(script).replace("/dev/aperture_devices", f"{machine.tcpxo}/aperture")


def ranks(machine: Machine, text: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", f"{text}\nenv"],
        env={"PATH": f"{machine.bin}:{os.environ['PATH']}", "MASTER_ADDR": "10.0.0.5", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a3_mega_gets_the_plugins_environment_and_the_users_values_win(machine: Machine) -> None:
    (machine.tcpxo / "aperture" / "0000:04:00.0").mkdir(parents=True)
    (machine.tcpxo / "nccl-env-profile.sh").write_text(PROFILE)
    mine = {"NCCL_BUFFSIZE": "1", "CUDA_VISIBLE_DEVICES": "3"}
    ran = ranks(machine, a3(machine, report=False), **mine)
    assert ran.returncode == 0, ran.stderr
    env = dict(line.split("=", 1) for line in ran.stdout.splitlines() if "=" in line)
    assert not TCPXO.mistakes(
        {
            **env,
            "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices",
            "LD_LIBRARY_PATH": f"{TCPXO.folder}:{env['LD_LIBRARY_PATH']}",
        }
    )
    assert env["NCCL_SOCKET_IFNAME"] == env["GLOO_SOCKET_IFNAME"] == "enp0s12"
    assert (env["NCCL_BUFFSIZE"], env["CUDA_VISIBLE_DEVICES"]) == ("1", "3")
    output = ranks(machine, a3(machine, report=True), **mine).stdout
    explained = {s.name: s for s in merged_settings({"node0": setting_rows(output)})}
    assert explained["NCCL_BUFFSIZE"].reason == YOURS
    assert "A3 Mega" in explained["NCCL_FASTRAK_IFNAME"].reason
    assert "PATH" not in explained


def test_a3_mega_without_its_plugin_ends_the_rank_and_explain_names_why(machine: Machine) -> None:
    ran = ranks(machine, a3(machine, report=False))
    assert ran.returncode == 1
    assert "the TCPXO prolog did not run" in ran.stderr
    output = ranks(machine, a3(machine, report=True)).stdout
    explained = {s.name: s for s in merged_settings({"node0": setting_rows(output)})}
    assert explained["GPUDirect-TCPXO"].value == "not there"
    assert "prolog did not run" in explained["GPUDirect-TCPXO"].reason
    assert explained["GLOO_SOCKET_IFNAME"].value == "eth7"


def test_one_a3_mega_alone_needs_no_plugin(machine: Machine) -> None:
    assert ranks(machine, a3(machine, report=False, several=False)).returncode == 0


# As the package nccl-gib's set_nccl_env.sh, which is for bash.
GIB_PROFILE = """\
declare -A tuned=([NCCL_IB_TC]=52 [NCCL_IB_QPS_PER_CONNECTION]=4)
for name in "${!tuned[@]}"; do export "$name=${tuned[$name]}"; done
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
"""


def gib(machine: Machine, *, report: bool = False, profile: str = GIB_PROFILE) -> str:
    """The environment of a machine with the plugin gIB, its devices in the machine's folder."""
    folder = machine.bin.parent / "gib"
    (folder / "scripts").mkdir(parents=True, exist_ok=True)
    (folder / "scripts/set_nccl_env.sh").write_text(profile)
    (folder / "devices").mkdir(exist_ok=True)
    script = settings(
        interface="",
        fabric="gib",
        threads=4,
        sys=str(machine.sys),
        folder=str(folder),
        report=report,
    )
    return str(script).replace("/dev/infiniband", f"{folder}/devices")


def test_gib_gets_its_plugins_environment_and_no_adapters_of_corrals(machine: Machine) -> None:
    machine.port("mlx5_0", layer="Ethernet", gids={3: V2})
    text = gib(machine)
    (machine.bin.parent / "gib/devices/uverbs0").touch()
    ran = ranks(machine, text, NCCL_IB_QPS_PER_CONNECTION="1", CUDA_VISIBLE_DEVICES="3")
    assert ran.returncode == 0, ran.stderr
    env = dict(line.split("=", 1) for line in ran.stdout.splitlines() if "=" in line)
    assert (env["NCCL_NET"], env["NCCL_IB_TC"]) == ("gIB", "52")
    assert (env["NCCL_IB_QPS_PER_CONNECTION"], env["CUDA_VISIBLE_DEVICES"]) == ("1", "3")
    assert env["LD_LIBRARY_PATH"] == f"{machine.bin.parent}/gib/lib64"
    assert (env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"]) == ("=eth7", "eth7")
    assert not {"NCCL_IB_HCA", "NCCL_IB_GID_INDEX"} & set(env)  # the plugin finds them
    output = ranks(machine, gib(machine, report=True)).stdout
    explained = {s.name: s for s in merged_settings({"node0": setting_rows(output)})}
    assert "NCCL/gIB on A3 Ultra" in explained["NCCL_NET"].reason


def test_gib_without_devices_ends_the_rank_and_explain_names_why(machine: Machine) -> None:
    ran = ranks(machine, gib(machine))
    assert ran.returncode == 1
    assert "no RDMA devices" in ran.stderr
    output = ranks(machine, gib(machine, report=True)).stdout
    explained = {s.name: s for s in merged_settings({"node0": setting_rows(output)})}
    assert explained["NCCL/gIB"].value == "not there"
    (machine.bin.parent / "gib/scripts/set_nccl_env.sh").unlink()
    text = str(PLUGINS["gib"].environment(f"{machine.bin.parent}/gib"))
    assert "nccl-gib is not installed" in ranks(machine, text).stderr


def test_the_fabric_of_an_a3_mega_is_known_by_its_machine() -> None:
    spec = load_or_raise(EXAMPLES / "a3mega.yaml")
    assert declared(spec, spec.partitions[0]) == ("", "tcpxo")
    laptop = load_or_raise(EXAMPLES / "laptop.yaml")
    assert declared(laptop, laptop.partitions[0]) == ("", "")


def test_nodes_that_agree_are_listed_together() -> None:
    line = "{}\t{}\twhy\n"
    outputs = {
        f"node{n}": line.format("MTU of eth0", 9000 if n == 2 else 1500) + line.format("A", n // 9)
        for n in range(3)
    }
    assert [
        (s.name, s.value, s.nodes)
        for s in merged_settings({n: setting_rows(o) for n, o in outputs.items()})
    ] == [
        ("MTU of eth0", "1500", "node[0-1]"),
        ("MTU of eth0", "9000", "node2"),
        ("A", "0", "node[0-2]"),
    ]


def test_a_rank_gets_what_explain_reports(machine: Machine) -> None:
    machine.port("mlx5_0")
    quiet = settings(
        interface="", fabric="infiniband", threads=4, sys=str(machine.sys), folder="/nonexistent"
    )
    text = join([sh("export MASTER_ADDR=10.0.0.5 OMP_NUM_THREADS=9"), quiet, sh("env")])
    ran = subprocess.run(
        ["/bin/sh", "-c", text],
        env={"PATH": f"{machine.bin}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    env = dict(line.split("=", 1) for line in ran.stdout.splitlines())
    assert (env["NCCL_IB_HCA"], env["OMP_NUM_THREADS"]) == ("=mlx5_0:1", "9")
    assert "\t" not in ran.stdout


def test_adapters_next_to_gpus_alone(machine: Machine) -> None:
    """As on a DGX: mlx5_0 and a GPU below one switch, mlx5_4 for storage on another root port."""
    for name in ("mlx5_0", "mlx5_4"):
        machine.port(name, rate="200 Gb/sec (4X HDR)")
    assert machine.explained("infiniband")["NCCL_IB_HCA"].value == "=mlx5_0:1,mlx5_4:1"
    machine.pci("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0")
    machine.pci("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0", "mlx5_0")
    machine.pci("pci0000:15/0000:15:05.0/0000:2a:00.0", "mlx5_4")
    adapters = machine.explained("infiniband")["NCCL_IB_HCA"]
    assert adapters.value == "=mlx5_0:1"
    assert adapters.reason == "active ports at 200 Gb/s that share a PCIe switch with a GPU"


def test_a_pkey_by_its_index(machine: Machine) -> None:
    for name, keys in (("mlx5_0", ("0xffff", "0x8001")), ("mlx5_1", ("0xffff", "0x8001"))):
        machine.port(name)
        (machine.sys / f"class/infiniband/{name}/ports/1/pkeys").mkdir()
        for index, key in enumerate(keys):
            (machine.sys / f"class/infiniband/{name}/ports/1/pkeys/{index}").write_text(f"{key}\n")
    assert "NCCL_IB_PKEY" not in machine.explained("infiniband")
    assert machine.explained("infiniband", rdma=Rdma("0x8001"))["NCCL_IB_PKEY"].value == "1"
    other = machine.sys / "class/infiniband/mlx5_1/ports/1/pkeys/1"
    other.write_text("0x7fff\n")
    with pytest.raises(AssertionError, match="no one index of PKey 0x8001"):
        machine.explained("infiniband", rdma=Rdma("0x8001"))


def test_a_declared_gid_index_wins(machine: Machine) -> None:
    machine.port("mlx5_0", layer="Ethernet", gids={3: "RoCE v2/0000:0000:0000:0000:0000:ffff:0a00"})
    assert machine.explained("roce")["NCCL_IB_GID_INDEX"].value == "3"
    assert machine.explained("roce", rdma=Rdma(gid_index="5"))["NCCL_IB_GID_INDEX"].value == "5"


def test_a_groups_own_settings_come_before_what_the_node_shows(machine: Machine) -> None:
    machine.port("mlx5_0")
    here, there = os.uname().nodename, "elsewhere"
    own = (("dgx", (there, here), ("NCCL_IB_HCA=mlx5_7", "NCCL_IB_TC=106")),
           ("old", (there,), ("NCCL_IB_TC=0",)))  # fmt: skip
    explained = machine.explained("infiniband", rdma=Rdma(given=own), NCCL_IB_TC="7")
    assert (explained["NCCL_IB_HCA"].value, explained["NCCL_IB_HCA"].reason) == (
        "mlx5_7",
        "groups[].nccl of dgx in the cluster file",
    )
    assert (explained["NCCL_IB_TC"].value, explained["NCCL_IB_TC"].reason) == ("7", YOURS)
    other = machine.explained("infiniband", rdma=Rdma(given=own[1:]))
    assert other["NCCL_IB_HCA"].value == "=mlx5_0:1"
    assert "NCCL_IB_TC" not in other


def test_groups_settings_are_read_from_the_file() -> None:
    spec = load_or_raise(EXAMPLES / "dgx-infiniband.yaml")
    groups = tuple(
        g.model_copy(update={"nccl": ("NCCL_DEBUG=WARN",)} if g.name == "dgx" else {})
        for g in spec.groups
    )
    (given,) = rdma_of(spec.model_copy(update={"groups": groups})).given
    assert (given[0], len(given[1]), given[2]) == ("dgx", 10, ("NCCL_DEBUG=WARN",))
    assert rdma_of(spec).given == ()


# corral env: the file that batch scripts of plain sbatch source.

SCONTROL = """#!/bin/sh
case "$*" in
"show hostnames node[0-1]") printf 'node0\\nnode1\\n' ;;
"--oneliner show node node0") echo "NodeName=node0 NodeAddr=10.0.0.5 NodeHostName=node0 " ;;
*) exit 1 ;;
esac
"""
STRICT = (("bash", "-euo", "pipefail"), ("sh", "-eu"), ("bash",))


def run_sourced(machine: Machine, text: str, shell: tuple[str, ...], **more: str) -> dict[str, str]:
    """A batch script that sources the file; its names before and after are compared too."""
    program = machine.bin / "scontrol"
    program.write_text(SCONTROL)
    program.chmod(0o755)
    file = machine.bin.parent / "env file.sh"
    file.write_text(text)
    script = f". '{file}'\necho END\nset +eu\nset | cut -d= -f1 | sort >names\nenv -0"
    given = {"SLURM_JOB_NODELIST": "node[0-1]", "SLURM_JOB_NUM_NODES": "2"}
    ran = subprocess.run(
        [*shell, "-c", script],
        env={"PATH": f"{machine.bin}:{os.environ['PATH']}", **given, **more},
        cwd=machine.bin.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    names = (machine.bin.parent / "names").read_text().split()
    assert not {"corral_exports", "corral_devices", "nic", "near", "ports"} & set(names)
    rows = ran.stdout.partition("END\n")[2].split("\0")
    return dict(row.split("=", 1) for row in rows if "=" in row)


def of_example(name: str, group: str, machine: Machine, **changes: object) -> str:
    spec = load_or_raise(EXAMPLES / name)
    chosen = next(g for g in spec.groups if g.name == group).model_copy(update=changes)
    return str(sourced(spec, chosen, sys=str(machine.sys), folder=str(machine.tcpxo)))


@pytest.mark.parametrize("shell", STRICT, ids=" ".join)
def test_a_batch_script_gets_what_ranks_of_corral_run_get(
    shell: tuple[str, ...], machine: Machine
) -> None:
    machine.port("mlx5_0")
    text = of_example("dgx-infiniband.yaml", "dgx", machine, nccl=("NCCL_IB_TC=it's 106",))
    text = text.replace("${SLURMD_NODENAME:-$(uname -n)}", "dgx01")
    env = run_sourced(machine, text, shell, NCCL_DEBUG="INFO", SLURM_CPUS_PER_TASK="6")
    assert env["NCCL_IB_HCA"] == "=mlx5_0:1"
    assert env["NCCL_IB_TC"] == "it's 106"
    assert env["MASTER_ADDR"] == "10.0.0.5"
    assert env["GLOO_SOCKET_IFNAME"] == "eth7"
    assert env["OMP_NUM_THREADS"] == "6"
    assert env["NCCL_DEBUG"] == "INFO"


def test_values_of_a_batch_script_win(machine: Machine) -> None:
    text = of_example("dgx-infiniband.yaml", "dgx", machine)
    env = run_sourced(machine, text, STRICT[0], NCCL_SOCKET_IFNAME="a'b\nc", MASTER_ADDR="10.0.0.5")
    assert env["NCCL_SOCKET_IFNAME"] == "a'b\nc"


def a3mega(machine: Machine) -> str:
    machine.tcpxo.mkdir()
    (machine.tcpxo / "nccl-env-profile.sh").write_text(PROFILE)
    (machine.bin.parent / "aperture" / "0000:06:00.0").mkdir(parents=True)
    text = of_example("a3mega.yaml", "a3mega", machine, nccl=("NCCL_CROSS_NIC=1",))
    return text.replace("ls -A /dev/aperture_devices", f"ls -A {machine.bin.parent}/aperture")


@pytest.mark.parametrize("shell", STRICT, ids=" ".join)
def test_a3_mega_is_set_up_for_plain_sbatch(shell: tuple[str, ...], machine: Machine) -> None:
    env = run_sourced(machine, a3mega(machine), shell, LD_LIBRARY_PATH="/opt/lib")
    env["LD_LIBRARY_PATH"] = env["LD_LIBRARY_PATH"].replace(str(machine.tcpxo), TCPXO.folder)
    assert TCPXO.mistakes(env) == ()
    assert env["NCCL_CROSS_NIC"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in env  # as Slurm had it: the profile's is gone
    assert f"{TCPXO.folder}:{TCPXO.folder}" in env["CORRAL_CONTAINER_MOUNTS"].split(",")
    assert "/dev/aperture_devices:/dev/aperture_devices" in env["CORRAL_CONTAINER_MOUNTS"]
    names = set(env["CORRAL_CONTAINER_ENV"].split(","))
    assert {n for n in env if n.startswith("NCCL_")} | {"LD_LIBRARY_PATH"} <= names


def test_one_node_needs_no_plugin(machine: Machine) -> None:
    text = of_example("a3mega.yaml", "a3mega", machine)
    env = run_sourced(machine, text, STRICT[0], SLURM_JOB_NUM_NODES="1")
    plain = {"NCCL_SOCKET_IFNAME"}  # as every job's
    assert {name for name in env if name.startswith(("NCCL_", "CORRAL_"))} == plain


def test_a_job_without_the_plugin_ends_with_the_reason(machine: Machine) -> None:
    text = of_example("a3mega.yaml", "a3mega", machine)
    ran = subprocess.run(
        [shutil.which("sh") or "/bin/sh", "-c", f"{text}\necho went on"],
        env={"PATH": os.environ["PATH"], "SLURM_JOB_NUM_NODES": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "the TCPXO prolog did not run" in ran.stderr


@pytest.mark.parametrize("shell", STRICT, ids=" ".join)
def test_gib_is_set_up_for_plain_sbatch(shell: tuple[str, ...], machine: Machine) -> None:
    gib(machine)  # its folder, with a profile
    (machine.bin.parent / "gib/devices/uverbs0").touch()
    machine.tcpxo = machine.bin.parent / "gib"
    text = of_example("a3ultra.yaml", "a3ultra", machine, nccl=("NCCL_IB_TC=0",))
    text = text.replace("ls -A /dev/infiniband", f"ls -A {machine.tcpxo}/devices")
    env = run_sourced(machine, text, shell, LD_LIBRARY_PATH="/opt/lib", CUDA_VISIBLE_DEVICES="3")
    assert (env["NCCL_NET"], env["NCCL_IB_QPS_PER_CONNECTION"]) == ("gIB", "4")
    assert (env["NCCL_IB_TC"], env["CUDA_VISIBLE_DEVICES"]) == ("0", "3")
    assert env["LD_LIBRARY_PATH"] == f"{machine.tcpxo}/lib64:/opt/lib"
    assert (env["NCCL_SOCKET_IFNAME"], env["MASTER_ADDR"]) == ("=eth7", "10.0.0.5")
    assert env["CORRAL_CONTAINER_MOUNTS"].split(",") == list(PLUGINS["gib"].mounts)
    assert {"NCCL_NET", "NCCL_IB_TC"} <= set(env["CORRAL_CONTAINER_ENV"].split(","))


def test_a_node_without_the_plugin_ends_the_batch_script(machine: Machine) -> None:
    text = of_example("a3ultra.yaml", "a3ultra", machine)
    given = {"SLURM_JOB_NUM_NODES": "2", "PATH": f"{machine.bin}:{os.environ['PATH']}"}
    ran = subprocess.run(
        ["bash", "-c", f"{text}\necho went on"],
        env=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "the package nccl-gib is not installed" in ran.stderr
