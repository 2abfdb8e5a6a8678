"""Blocks of the guide, run as they are written on a real cluster whose file is lab.yaml."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.embedded.conftest import CLEAN_UP, EXAMPLES
from tests.guide_blocks import SHELLS, Block, not_printed, run_by

from corral.hosts.quote import sh
from corral.state_dir import VARIABLE, state_dir

if TYPE_CHECKING:
    from tests.embedded.conftest import Live

BLOCKS = run_by(__file__, *SHELLS)
PROGRAMS = run_by(__file__, "python")
SERVERS = run_by(__file__, "nginx")
LIMIT_S = 900
TRAIN = """\
import os
print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}")
"""


@pytest.fixture
def place(cluster: Live, tmp_path: Path) -> Iterator[Path]:
    """A folder as a reader has it: lab.yaml, which is also cluster.yaml, train.py, the examples."""
    text = (EXAMPLES / "laptop.yaml").read_text()
    text = text.replace("name: laptop", f"name: {cluster.spec.name}")
    text += f"\nhealth: {{every: {cluster.spec.health.every}}}\n"
    for name in ("lab.yaml", "cluster.yaml"):
        (tmp_path / name).write_text(text)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / ".ssh").mkdir(mode=0o700)
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    yield tmp_path
    cluster.run(cluster.controller, CLEAN_UP)


def test_some_blocks_are_run_here() -> None:
    assert len(BLOCKS) >= 8


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_succeeds(block: Block, cluster: Live, place: Path) -> None:
    """Where text and output have the name lab for a cluster, this one's name is another."""
    text = re.sub(r"(?<=[\w/] )lab(?= |$)", cluster.spec.name, block.text, flags=re.M)
    own = Path(sys.executable).parent
    places = {"HOME": str(place), VARIABLE: str(state_dir())}
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", text],
        cwd=place,
        env={**os.environ, "PATH": f"{own}:{os.environ['PATH']}", **places},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{block}:\n{text}\n{done.stdout}\n{done.stderr}"
    printed = (done.stdout + done.stderr).replace(cluster.spec.name, "lab")
    missing = not_printed(block.shown, printed)
    assert not missing, f"{block} does not print {missing}:\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_program_succeeds(block: Block, cluster: Live, place: Path) -> None:
    """With the test's own cluster, and a pending job's number in place of 1234."""
    pending = cluster.run(
        cluster.controller, sh("cd /tmp && sbatch --parsable --begin=now+1hour --wrap true")
    ).stdout.strip()
    text = block.text.replace('open("lab")', f'open("{cluster.spec.name}")')
    done = subprocess.run(
        [sys.executable, "-c", text.replace("1234", pending)],
        cwd=place,
        env={**os.environ, "HOME": str(place), VARIABLE: str(state_dir())},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{block}:\n{text}\n{done.stdout}\n{done.stderr}"
    missing = not_printed(block.shown, done.stdout)
    assert not missing, f"{block} does not print {missing}:\n{done.stdout}"


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's nginx, unpacked: its installation would start a server on this machine."""
    folder = tmp_path_factory.mktemp("nginx")
    words = ("apt-get", "download", "-q", "nginx")
    fetched = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120)
    package = next(folder.glob("*.deb"), None)
    if package is None:
        pytest.skip(f"no nginx: {fetched.stderr[-200:]}")
    subprocess.run(["dpkg", "-x", package, folder / "root"], check=True)
    return folder / "root/usr/sbin/nginx"


@pytest.mark.parametrize("wrong", [False, True], ids=["as shown", "with a fault"])
@pytest.mark.parametrize("block", SERVERS, ids=str)
def test_nginx_takes_a_block(block: Block, wrong: bool, nginx: Path, tmp_path: Path) -> None:
    text = re.sub(r"/etc/nginx/(?=corral)", f"{tmp_path}/", block.text)
    (tmp_path / "corral-secret").write_text('proxy_set_header X-Corral-Secret "x";\n')
    if wrong:
        text = text.replace("proxy_pass", "proxy_past")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    own = "".join(f"{kind}_temp_path {tmp_path}/{kind}; " for kind in kinds)
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid; events {{}} http {{ {own} access_log off;\n"
        f"server {{ listen 127.0.0.1:1;\n{text}\n}} }}"
    )
    words = [nginx, "-t", "-p", tmp_path, "-c", tmp_path / "nginx.conf", "-e", "stderr"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode != 0) == wrong, done.stderr
