"""Verbs of a profile on a client that is not Linux: names that Linux alone has are not touched.

The names are taken away in a separate process, which also calls itself darwin once Python's own
modules are there.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

LINUX_ONLY: Final = {
    "os": (
        "O_PATH",
        "O_TMPFILE",
        "pipe2",
        "memfd_create",
        "eventfd",
        "pidfd_open",
        "copy_file_range",
        "splice",
        "posix_fadvise",
        "posix_fallocate",
        "sched_getaffinity",
        "sched_setaffinity",
        "getxattr",
        "setxattr",
        "getrandom",
        "fdatasync",
        "unshare",
        "setns",
        "getresuid",
        "setresuid",
    ),
    "select": ("epoll", "EPOLLIN"),
    "socket": ("SOCK_CLOEXEC", "SOCK_NONBLOCK", "AF_NETLINK", "SO_PEERCRED"),
    "signal": ("SIGRTMIN", "SIGRTMAX", "sigtimedwait", "sigwaitinfo", "pidfd_send_signal"),
    "resource": ("prlimit",),
}
"""By module; of CPython's documentation, "Availability: Linux"."""
ON_SERVERS: Final = ("agents", "web", "testing", "providers/containers", "providers/local")
"""What runs on nodes, on the controller, or where containers are."""
ON_NODES: Final = ("shards.py: os.posix_fadvise",)
"""Of modules that are sent to nodes too: the measurement of a disk there."""
STAND_IN: Final = f"""
import importlib, sys, types
for module, names in {dict(LINUX_ONLY)!r}.items():
    for name in names:
        if hasattr(importlib.import_module(module), name):
            delattr(importlib.import_module(module), name)
sys.modules["_scproxy"] = types.SimpleNamespace(
    _get_proxy_settings=lambda: {{}}, _get_proxies=lambda: {{}}
)
import asyncio, subprocess, urllib.request, tempfile, pathlib, webbrowser
sys.platform = "darwin"
"""
IMPORTS: Final = """
import pkgutil
import corral.api, corral.cli, corral.jobs, corral.hosts
for room in (corral.cli, corral.api, corral.jobs, corral.hosts):
    for each in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        importlib.import_module(each.name)
print("imported")
"""
PACKS: Final = """
import asyncio, json
from pathlib import Path
from corral.cli.terminal.interrupts import ran
from corral.jobs.upload.manifest import pack
packed = pack(Path(sys.argv[1]), None)
packed = ran(packed) if asyncio.iscoroutine(packed) else packed
print(json.dumps(sorted((file.path, file.digest, file.link) for file in packed.files)))
"""


def printed(program: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_verbs_are_imported_without_them() -> None:
    assert printed(STAND_IN + IMPORTS).strip() == "imported"


def test_a_project_is_packed_the_same_without_them(tmp_path: Path) -> None:
    """Through a link to it, with links and folders in it."""
    project = tmp_path / "project"
    (project / "lib").mkdir(parents=True)
    (project / ".corralignore").write_text("*.ckpt\n")
    (project / "train.py").write_text("import lib\n")
    (project / "lib/more.py").write_text("x = 1\n")
    (project / "lib/again.py").symlink_to("more.py")
    (project / "big.ckpt").write_text("no")
    link = tmp_path / "link"
    link.symlink_to("project")
    for script in (project / "train.py", link / "train.py"):
        elsewhere = json.loads(printed(STAND_IN + PACKS, str(script)))
        here = json.loads(printed("import sys\n" + PACKS, str(script)))
        assert elsewhere == here
        assert [path for path, *_ in here] == [
            ".corralignore",
            "lib/again.py",
            "lib/more.py",
            "train.py",
        ]


def test_code_of_clients_names_none_of_them(repo: Path) -> None:
    source = repo / "src/corral"
    used: list[str] = []
    for file in sorted(source.rglob("*.py")):
        name = str(file.relative_to(source))
        if name.startswith(ON_SERVERS):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Attribute(ast.Name(module), word) if word in LINUX_ONLY.get(module, ()):
                    used.append(f"{name}: {module}.{word}")
                case _:
                    continue
    assert sorted(used) == sorted(ON_NODES)
