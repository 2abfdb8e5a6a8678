"""The other machine: a changed root with podman, commands in it, and the record of what they did.

Standard library alone, Python 3.11 or later.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PATH = "/opt/corral/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TAIL = 6000
"""Characters of a command's output that the record keeps."""
CONTAINERS_CONF = """\
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE_CONF = """\
[storage]
driver = "overlay"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
"""


@dataclass(frozen=True)
class Done:
    """A command that ended.

    Attributes:
        argv: its words.
        status: -1: it did not end in time.
        seconds: how long it took.
        stdout: what it printed.
        stderr: the same of its errors.
    """

    argv: list[str]
    status: int
    seconds: float
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """Both outputs."""
        return self.stdout + self.stderr

    def kept(self) -> dict[str, Any]:
        """What the record has of it."""
        fields = asdict(self)
        return fields | {"stdout": self.stdout[-TAIL:], "stderr": self.stderr[-TAIL:]}


def ran(
    argv: list[str], timeout: float = 300, env: Mapping[str, str] | None = None, stdin: str = ""
) -> Done:
    """Run a command to its end, or to its time limit."""
    began = time.monotonic()
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=None if env is None else dict(env),
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(stdin, timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            status = -1
    return Done(argv, status, round(time.monotonic() - began, 2), out, err)


class Record:
    """One JSON object a line, written as it comes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._file = folder / "record.jsonl"

    def add(self, row: str, what: str, **fields: Any) -> None:
        """Write what was seen, and show it."""
        line = {"at": round(time.time(), 1), "row": row, "what": what, **fields}
        with self._file.open("a") as stream:
            stream.write(json.dumps(line, default=str) + "\n")
        shown = {k: v for k, v in fields.items() if k not in ("stdout", "stderr", "argv")}
        print(
            f"{time.strftime('%X')} {row}: {what} {json.dumps(shown, default=str)[:600]}",
            flush=True,
        )

    def command(self, row: str, what: str, done: Done) -> Done:
        """Write a command that ended; shows its last lines where it failed."""
        self.add(row, what, **done.kept())
        if done.status != 0:
            print("   " + done.text.strip()[-900:].replace("\n", "\n   "), flush=True)
        return done


class Machine:
    """The changed root.

    Args:
        kit: the folder with all files of the kit.
        record: of what is done.
        root: where the other system is.
    """

    def __init__(self, kit: Path, record: Record, root: Path) -> None:
        self.kit, self.record, self.root = kit, record, root
        self.env = {
            "PATH": PATH,
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "NCCL_NVLS_ENABLE": "0",
            "PODMAN_IGNORE_CGROUPSV1_WARNING": "1",
        }

    def inside(self, *argv: str, timeout: float = 300, stdin: str = "") -> Done:
        """Run a command in the changed root."""
        return ran([*self.enter(), *argv], timeout, self.env, stdin)

    def enter(self) -> list[str]:
        """What begins a command in the root."""
        holder = (self.kit / "holder.pid").read_text()
        return ["nsenter", "--target", holder, "--mount", "--"]

    def start(self, log: Path, *argv: str) -> subprocess.Popen[bytes]:
        """Start a command in the changed root, in a separate session."""
        with log.open("wb") as stream:
            return subprocess.Popen(
                [*self.enter(), *argv],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=self.env,
                start_new_session=True,
            )

    def corral(self, row: str, *argv: str, timeout: float = 300) -> Done:
        """Run ``corral`` there; the record has it."""
        done = self.inside("corral", *argv, timeout=timeout)
        return self.record.command(row, f"corral {' '.join(argv)}"[:200], done)

    def node(self, cluster: str, node: str, script: str, timeout: float = 120) -> Done:
        """Run a script as root of a node."""
        name = f"corral-{cluster}-{node}"
        return self.inside("podman", "exec", name, "sh", "-c", script, timeout=timeout)

    def shared(self, cluster: str) -> Path:
        """The cluster's folder /shared, as this machine has it.

        Raises:
            SystemExit: it is not there.
        """
        listed = self.inside("podman", "volume", "ls", "-q").stdout.split()
        name = next((v for v in listed if v.startswith(f"corral-{cluster}-shared-")), "")
        matched = self.inside("podman", "volume", "inspect", "--format", "{{.Mountpoint}}", name)
        if not name or matched.status != 0:
            raise SystemExit(f"no shared folder of {cluster}: {matched.text}")
        return self.root / matched.stdout.strip().lstrip("/")

    # The root itself

    def zstd(self) -> list[str]:
        """How to call zstd: the machine's own, else the kit's with its loader."""
        if own := shutil.which("zstd"):
            return [own]
        folder = self.kit / "zstd"
        loader = next(folder.glob("ld-linux*"))
        return [str(loader), "--library-path", str(folder), str(folder / "zstd")]

    def unpack(self) -> None:
        """Make the root: the bundle's node image, with podman's layer on it."""
        work = self.kit / "work"
        work.mkdir(exist_ok=True)
        bundle = self.kit / "bundle.tar.zst"
        subprocess.run(
            [*self.zstd(), "-qdf", "--long=27", bundle, "-o", work / "bundle.tar"], check=True
        )
        subprocess.run(["tar", "-xf", work / "bundle.tar", "-C", work], check=True)
        (work / "bundle.tar").unlink()
        (work / "image").mkdir()
        subprocess.run(["tar", "-xf", work / "image.tar", "-C", work / "image"], check=True)
        (work / "image.tar").unlink()
        blobs = work / "image/blobs/sha256"
        index = json.loads((work / "image/index.json").read_text())
        digest = index["manifests"][0]["digest"].partition(":")[2]
        manifest = json.loads((blobs / digest).read_text())
        self.root.mkdir(parents=True, exist_ok=True)
        for layer in manifest["layers"]:
            blob = blobs / layer["digest"].partition(":")[2]
            subprocess.run(["tar", "-xpf", blob, "-C", self.root, "--numeric-owner"], check=True)
        layer = work / "podman.tar"
        packed = self.kit / "podman.tar.zst"
        subprocess.run([*self.zstd(), "-qdf", packed, "-o", layer], check=True)
        subprocess.run(["tar", "-xpf", layer, "-C", self.root, "--numeric-owner"], check=True)
        shutil.rmtree(work / "image")
        layer.unlink()

    def mount(self) -> None:
        """Mount what a system needs below the root, and put podman's settings there."""
        root = self.root
        mount("--bind", root, root)
        mount("--make-rprivate", root)
        for name in ("proc", "sys", "dev"):
            mount("--rbind", f"/{name}", root / name)
            mount("--make-rslave", root / name)
        mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root / "run")
        (root / "kit").mkdir(exist_ok=True)
        mount("--bind", self.kit, root / "kit")
        for name, text in (
            ("etc/containers/containers.conf", CONTAINERS_CONF),
            ("etc/containers/storage.conf", STORAGE_CONF),
            ("etc/hosts", "127.0.0.1 localhost\n"),
            ("etc/resolv.conf", ""),
        ):
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            file.write_text(text)
        for name in ("var/tmp", "tmp", "root", "var/lib/containers/storage"):
            (root / name).mkdir(parents=True, exist_ok=True)
        if not overlay_works(root / "var/lib/containers"):
            mount("-t", "tmpfs", "-o", "size=60g", "tmpfs", root / "var/lib/containers")
            self.record.add("root", "podman's storage is a tmpfs: no overlay on this disk")

    def hold(self) -> None:
        """Keep a mount namespace whose root is the changed root.

        In a chroot alone ``podman exec`` enters the machine's own root: runc goes to the root of
        the container's mount namespace, which pivot_root does not change there (runc 1.1, seen).
        """
        script = f"pivot_root {self.root} {self.root}/mnt && cd / && umount -l /mnt && "
        script += "mount --make-rshared / && exec sleep infinity"
        process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        (self.kit / "holder.pid").write_text(str(process.pid))
        end = time.monotonic() + 20
        while self.inside("cat", "/etc/debian_version").stdout[:2] != "13":
            if time.monotonic() > end:
                raise SystemExit("the changed root cannot be entered")
            time.sleep(0.2)

    def driver(self) -> None:
        """The machine's driver in the root: its libraries where they are, nvidia-smi on PATH."""
        listed = ran(["ldconfig", "-p"]).stdout
        matched = re.search(r"libcuda\.so\.1 .*x86-64.*=> (\S+)", listed)
        if matched is None:
            return
        folder = Path(matched[1]).parent
        smi = nvidia_smi(folder)
        if folder.is_relative_to("/usr/local/nvidia"):
            target = self.root / "usr/local/nvidia"
            target.mkdir(parents=True, exist_ok=True)
            mount("--rbind", "/usr/local/nvidia", target)
        else:
            target = self.root / "usr/local/driver"
            target.mkdir(parents=True, exist_ok=True)
            for path in folder.glob("lib*"):
                if "nvidia" in path.name or "libcuda" in path.name:
                    shutil.copy(path, target / path.name, follow_symlinks=False)
            folder = Path("/usr/local/driver")
        (self.root / "etc/ld.so.conf.d/driver.conf").write_text(f"{folder}\n")
        ran(["chroot", str(self.root), "ldconfig"])
        link = self.root / "usr/bin/nvidia-smi"
        link.unlink(missing_ok=True)
        if smi is not None and smi.is_relative_to("/usr/local/nvidia"):
            link.symlink_to(smi)
        elif smi is not None:
            shutil.copy(smi, link)


def nvidia_smi(folder: Path) -> Path | None:
    """The program itself: machines have wrapper scripts of its name."""
    words = (folder.parent / "bin/nvidia-smi", shutil.which("nvidia-smi"), "/usr/bin/nvidia-smi")
    for word in words:
        path = Path(word or "/none")
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            return path
    return None


def mount(*words: str | Path) -> None:
    """Mount something."""
    subprocess.run(["mount", *map(str, words)], check=True)


def overlay_works(folder: Path) -> bool:
    """Whether an overlay can have its upper folder there."""
    place = folder / "overlay-trial"
    for name in ("lower", "upper", "work", "merged"):
        (place / name).mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work"
    argv = ["mount", "-t", "overlay", "overlay", "-o", options, f"{place}/merged"]
    works = subprocess.run(argv, check=False, capture_output=True).returncode == 0
    if works:
        subprocess.run(["umount", f"{place}/merged"], check=True)
    shutil.rmtree(place)
    return works
