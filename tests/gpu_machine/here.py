"""Rows of ``corral init --here``: on the machine as it is, and in a container that boots systemd.

The machine has no systemd as process 1. The container has one, the machine's GPUs, its driver and
an uncovered ``/proc``: it stands for a separate machine, on which Corral runs without ssh.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Final

from tests.gpu_machine import training
from tests.gpu_machine.cluster import containers
from tests.gpu_machine.contained import IMAGE, MAKE, SHOW
from tests.gpu_machine.contained import train as in_container
from tests.gpu_machine.lab import PYTHON, Lab, python_tree
from tests.gpu_machine.machine import PATH, Done, Machine, ran

HERE = "here"
CONTAINER = f"corral-{HERE}-node0"
VOLUME = f"corral-{HERE}-shared-1"
DRIVER = "/usr/local/nvidia"
START = (
    f"if [ -d {DRIVER}/lib64 ]; then echo {DRIVER}/lib64 >/etc/ld.so.conf.d/driver.conf; "
    f"ldconfig; ln -sf {DRIVER}/bin/nvidia-smi /usr/local/bin/nvidia-smi; fi; "
    "useradd -m -u 1000 -s /bin/bash alice; chmod 1777 /shared; exec /sbin/init"
)
BARE = "/var/tmp/bare.sqsh"
"""An image of the changed root."""
BARE_IMAGE = (
    f"mksquashfs / {BARE} -noappend -quiet -no-progress -comp gzip -Xcompression-level 1 "
    "-one-file-system -wildcards -e 'kit/*' 'run/*' 'tmp/*' 'var/tmp/*' 'var/lib/*' 'var/log/*' "
    "'root/*' 'opt/*' 'usr/local/nvidia/*' usr/bin/nvidia-smi etc/ld.so.conf.d/driver.conf "
    "'etc/shadow*' 'etc/ssh/*' 'proc/*' 'sys/*' 'dev/*' 'mnt/*' >/dev/null; "
    f"chmod 644 {BARE}; ls -l {BARE}"
)


class Within(Machine):
    """The container that stands for a machine: commands run in it.

    Args:
        outer: the changed root that has it.
    """

    def __init__(self, outer: Machine) -> None:
        shown = outer.inside("podman", "inspect", "-f", "{{.State.Pid}}", CONTAINER)
        super().__init__(outer.kit, outer.record, Path(f"/proc/{shown.stdout.strip()}/root"))
        self.outer = outer

    def enter(self) -> list[str]:
        """What begins a command in the container."""
        env = {"PATH": PATH, "HOME": "/root", "PIP_FIND_LINKS": "/wheels", "PIP_NO_INDEX": "1"}
        env |= {"NCCL_NVLS_ENABLE": "0", "LANG": "C.UTF-8"}
        words = [f"--env={key}={value}" for key, value in env.items()]
        return [*self.outer.enter(), "podman", "exec", *words, "--workdir=/root", CONTAINER]

    def node(self, cluster: str, node: str, script: str, timeout: float = 120) -> Done:
        """Run a script as root: the cluster's one node is the container itself."""
        return self.inside("sh", "-c", script, timeout=timeout)

    def shared(self, cluster: str) -> Path:
        """The folder /shared."""
        return self.outer.shared(cluster)


def within(lab: Lab) -> Lab:
    """The same record, with the container as the machine."""
    made = Lab(Within(lab.machine), lab.record, lab.steps)
    made.files = lab.files
    return made


def refused(lab: Lab) -> None:
    """``corral init --here`` on the machine as it is."""
    row = "vm-here"
    lab.record.command(row, "process 1", ran(["cat", "/proc/1/comm"]))
    lab.machine.corral(row, "init", "--here", "-o", "-")


def start(lab: Lab) -> None:
    """The container, of the bundle's node image."""
    row, machine = "here-start", lab.machine
    load = "set -e; cd /var/tmp; tar --zstd -xf /kit/bundle.tar.zst manifest.json image.tar; "
    load += "podman load -q -i image.tar >/dev/null; rm image.tar; cat manifest.json"
    loaded = lab.record.command(row, "podman load", machine.inside("sh", "-c", load))
    image = json.loads(loaded.stdout)["image"]
    machine.inside("podman", "volume", "create", VOLUME)
    argv = ["podman", "run", "--detach", "--pull=never", "--name", CONTAINER, "--hostname", "node0"]
    argv += ["--systemd=always", "--privileged", "--pids-limit=-1", "--shm-size=8g"]
    argv += ["--volume", f"{VOLUME}:/shared", "--volume", "/kit:/kit:ro"]
    argv += ["--volume", "/opt/corral:/opt/corral", "--volume", "/root/wheels:/wheels:ro"]
    if (machine.root / "usr/local/nvidia/lib64").exists():
        argv += ["--volume", "/usr/local/nvidia:/usr/local/nvidia:ro"]
    argv += ["--entrypoint", json.dumps(["/bin/sh", "-c", START]), image]
    lab.record.command(row, "podman run", machine.inside(*argv))
    inner = within(lab)
    for _ in range(60):
        time.sleep(0.5)
        done = inner.machine.inside("systemctl", "is-system-running")
        if done.stdout.strip() in ("running", "degraded"):
            break
    script = "systemctl is-system-running; cat /proc/1/comm; nvidia-smi -L; ls -l /dev/nvidia*; "
    script += "nproc; free -g; systemctl --failed --no-legend; findmnt -R /proc"
    lab.record.command(row, "what it is", inner.machine.inside("sh", "-c", script))


def up(lab: Lab) -> None:
    """From nothing to a proven cluster of this machine."""
    row = "here-up"
    inner = within(lab)
    machine = inner.machine
    machine.corral(row, "init", "--here", "--force", "-o", f"/root/{HERE}.yaml")
    file = machine.root / f"root/{HERE}.yaml"
    lab.record.add(row, "the file", text=file.read_text())
    more = "proof: {every: 1d}\nservices: {metrics: true}\n"
    more += containers(lab.files, lab.machine.kit) if lab.files else ""
    file.write_text(file.read_text() + more)
    machine.corral(row, "plan", f"/root/{HERE}.yaml", "--diff")
    done = machine.inside("corral", "up", f"/root/{HERE}.yaml", "--yes", "--json", timeout=420)
    (lab.record.folder / f"{row}.json").write_text(done.stdout)
    lab.record.command(row, "corral up", done)
    machine.corral(row, "plan", f"/root/{HERE}.yaml")
    machine.corral(row, "status", f"/root/{HERE}.yaml")
    words = ("run", "--cluster", f"/root/{HERE}.yaml", *(("-G", "1") if lab.gpus else ()))
    machine.corral(row, *words, "--", "sh", "-c", "id -un; nvidia-smi -L; ls /dev/nvidia*")
    machine.corral(row, "run", "--cluster", f"/root/{HERE}.yaml", "--", "sh", "-c", "nvidia-smi -L")
    if lab.gpus:
        inner.python_for_nodes(HERE)


def more(lab: Lab) -> None:
    """A second ``up``, and the job of a user of the machine without ``corral``."""
    row, machine = "here-more", within(lab).machine
    machine.corral(row, "up", f"/root/{HERE}.yaml", "--yes")
    script = "cd /tmp; runuser -u alice -- srun "
    script += ("--gpus=1 nvidia-smi -L" if lab.gpus else "id -un") + " 2>&1"
    lab.record.command(row, "srun of a user", machine.node(HERE, "node0", script))


OPEN: Final = (
    "for f in /dev/nvidia[0-9]*; do (: <$f) 2>&1 && echo $f opens; done; nvidia-smi -L; true"
)
"""What a job can do with the GPUs of its node."""


def withheld(lab: Lab) -> None:
    """The file declares no GPU: no job gets the machine's; then it declares it again."""
    row, inner = f"{HERE}-withheld", within(lab)
    machine, path = inner.machine, f"/root/{HERE}.yaml"
    file = machine.root / f"root/{HERE}.yaml"
    declared = file.read_text()
    file.write_text(re.sub(r"^ +gpu: .*\n", "", declared, flags=re.MULTILINE))
    lab.record.add(row, "the file", text=file.read_text())
    machine.corral(row, "plan", path, "--diff")
    shown(machine.corral(row, "up", path, "--yes"))
    run = ("run", "--cluster", path)
    for words in ((), ("--sbatch=--exclusive",), ("-G", "1")):
        shown(machine.corral(row, *run, *words, "--", "sh", "-c", OPEN))
    script = "cat /etc/slurm/gres.conf; scontrol show node node0 | grep -i gres; "
    script += "cd /tmp; runuser -u alice -- srun --gres=withheld:1 nvidia-smi -L 2>&1"
    shown(lab.record.command(row, "what Slurm has", machine.node(HERE, "node0", script)))
    file.write_text(declared)
    shown(machine.corral(row, "up", path, "--yes"))
    shown(machine.corral(row, *run, "-G", "1", "--", "sh", "-c", OPEN))
    shown(machine.corral(row, *run, "--", "sh", "-c", OPEN))


def jobs(lab: Lab) -> None:
    """Requeue to the end, both profiles."""
    inner = within(lab)
    training.requeue(inner, HERE)
    training.profile(inner, HERE)
    nsys(inner)


def nsys(lab: Lab) -> None:
    """``--profile nsys``, where the kit has one."""
    packed = lab.machine.kit / "nsys.tar.zst"
    if not lab.gpus or not packed.exists():
        return
    script = "mkdir -p /opt/nsys && tar --zstd -xf /kit/nsys.tar.zst -C /opt/nsys && "
    script += "ln -sf /opt/nsys/bin/nsys /usr/local/bin/nsys; nsys --version"
    row = f"{HERE}-profile"
    lab.record.command(row, "nsys", lab.machine.node(HERE, "node0", script))
    done = training.job(lab, HERE, 40, "--profile", "nsys", "--name", "nsys")
    lab.record.command(row, "--profile nsys", done)
    print("   " + done.text.strip()[-2500:].replace("\n", "\n   "), flush=True)


def contained(lab: Lab) -> None:
    """Enroot, Pyxis and libnvidia-container where nothing of ``/proc`` is covered."""
    row, inner = f"{HERE}-containers", within(lab)
    machine = inner.machine
    if not lab.files:
        return
    lab.record.command(row, "the image", machine.node(HERE, "node0", MAKE, timeout=180))
    file = f"/root/{HERE}.yaml"
    gpu = ("-G", "1") if lab.gpus else ()
    run = ("run", "--cluster", file, *gpu, "--container", IMAGE, "--", "sh", "-c")
    shown(machine.corral(row, *run, SHOW, timeout=120))
    script = "dpkg -i /kit/tools/*.deb 2>&1 | tail -3; nvidia-container-cli -k info; "
    script += "nvidia-container-cli -k list; ls /etc/enroot/hooks.d"
    lab.record.command(row, "libnvidia-container", machine.node(HERE, "node0", script))
    shown(machine.corral(row, *run, SHOW, timeout=120))
    if lab.gpus:
        product = f"{PYTHON} /shared/programs/product.py"
        shown(machine.corral(row, *run, product, timeout=120))
        words = ("run", "--cluster", file, "--container", IMAGE, "--", "sh", "-c", SHOW)
        shown(machine.corral(row, *words, timeout=120))


def shown(done: Done) -> Done:
    """Print the end of what a command printed."""
    print("   " + done.text.strip()[-1200:].replace("\n", "\n   "), flush=True)
    return done


def enroot(lab: Lab) -> None:
    """Enroot with its own hook on the machine itself: no node, no container around it."""
    if not lab.files:
        return
    row, machine = "vm-enroot", lab.machine
    script = (
        "useradd -m -u 2000 -s /bin/bash tester; dpkg -i /kit/files/*.deb /kit/tools/*.deb 2>&1 "
    )
    script += f"| tail -4; {BARE_IMAGE}; nvidia-container-cli -k info; nvidia-container-cli -k list"
    shown(lab.record.command(row, "packages and image", machine.inside("sh", "-c", script)))
    if lab.gpus:
        python_tree(machine.kit / "py312")
    listed = by_user("sh -c 'ls /dev/nvidia*; nvidia-smi -L'")
    shown(lab.record.command(row, "nvidia-smi", machine.inside("sh", "-c", listed)))
    product = by_user("/py312/bin/python3 /programs/product.py")
    shown(lab.record.command(row, "PyTorch", machine.inside("sh", "-c", product)))


def by_user(command: str) -> str:
    """A command in a container of Enroot, by a user who is not root."""
    home = "/home/tester"
    lines = [f"cd {home}; mkdir -p run data tmp cache; export ENROOT_RUNTIME_PATH={home}/run"]
    lines += [f"export ENROOT_DATA_PATH={home}/data ENROOT_TEMP_PATH={home}/tmp"]
    lines += [
        f"export ENROOT_CACHE_PATH={home}/cache NVIDIA_VISIBLE_DEVICES=all NVIDIA_DEBUG_LOG=1"
    ]
    lines += ["export NVIDIA_DRIVER_CAPABILITIES=compute,utility"]
    lines += [f"[ -d data/bare ] || enroot create -n bare {BARE}"]
    mounts = "--mount /kit/py312:/py312 --mount /kit/tree/tests/gpu_machine/programs:/programs"
    lines += [f"enroot start {mounts} bare {command}"]
    script = "\n".join(lines)
    return f"cat >/tmp/by-user.sh <<'EOF'\n{script}\nEOF\nrunuser -u tester -- bash /tmp/by-user.sh"


def down(lab: Lab) -> None:
    """``corral down`` in the container, then the container goes."""
    row, machine = "here-down", within(lab).machine
    machine.corral(row, "down", f"/root/{HERE}.yaml", "--yes")
    script = (
        "ls /etc/slurm; systemctl list-units 'slurm*' 'munge*' 'mariadb*' --no-legend; id slurm; "
    )
    script += "dpkg -l | grep -cE '^ii +(slurm|enroot)'"
    lab.record.command(row, "what is there", machine.node(HERE, "node0", script))
    busy(lab)
    lab.machine.inside("podman", "rm", "-f", "-t", "5", CONTAINER)
    lab.machine.inside("podman", "volume", "rm", VOLUME)
    lab.leftovers(row)


def busy(lab: Lab) -> None:
    """A process of the machine computes on its GPU: no plan, no ``up``."""
    if not lab.gpus:
        return
    row, machine = "here-busy", within(lab).machine
    log = lab.record.folder / "here-holder.log"
    process = machine.start(log, PYTHON, "/shared/programs/holder.py", "25")
    for _ in range(40):
        time.sleep(0.5)
        if "holds" in log.read_text():
            break
    machine.corral(row, "init", "--here", "--force", "-o", f"/root/{HERE}.yaml")
    machine.corral(row, "plan", f"/root/{HERE}.yaml")
    machine.corral(row, "up", f"/root/{HERE}.yaml", "--yes")
    process.wait(60)
    machine.corral(row, "plan", f"/root/{HERE}.yaml")


def figures(lab: Lab) -> None:
    """What a followed job reports of its use, with metrics; the same script in a container."""
    inner = within(lab)
    if not lab.gpus:
        return
    row = f"{HERE}-figures"
    # A job of less than five minutes has no figure (inspect.jobs.LEAST_STEPS).
    shown(lab.record.command(row, "a job", training.job(inner, HERE, 4900, "--name", "measured")))
    if lab.files:
        inner.machine.node(HERE, "node0", MAKE, timeout=180)
        inner.machine.node(HERE, "node0", "dpkg -i /kit/tools/*.deb")
        in_container(inner, HERE)
