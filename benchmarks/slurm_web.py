"""The page compared with Slurm-web over the same recorded answers: nodes, jobs, calls, memory.

    .venv/bin/python -m benchmarks.slurm_web [--source FOLDER] [--nodes 1000] [--jobs 5000]

FOLDER is a git checkout of Slurm-web (rackslab/Slurm-web on GitHub), which is on no package index;
its tag v6.0.0 is taken. Without it the page is measured alone. A separate environment is made
for it once. Its agent runs as ``slurm-web agent`` does, without redis; its gateway, which would
sign people in, is left out. Both ask the same player of slurmrestd (``benchmarks/web.py``), in
turns, round by round.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import httpx

from benchmarks.machine import machine
from benchmarks.web import memory, player, session_headers, token
from corral.testing.page import page

TAG = "v6.0.0"
RFL = ("authentication", "core", "log", "permissions", "settings", "web")
PINS = (
    *(f"RFL.{name}==1.9.0" for name in RFL),
    *("aiohttp==3.14.5", "Flask==3.1.3", "PyJWT==2.15.1", "PyYAML==6.0.3", "ClusterShell==1.10.1"),
    *("prometheus-client==0.26.0", "requests==2.34.2", "redis==8.1.0", "setuptools==80.9.0"),
    "Markdown==3.11.3",  # the gateway's
)
VIEWERS = 10
AGENT = 26997
SITE = """\
[service]
cluster=big
port={port}
[slurmrestd]
uri={slurm}
jwt_mode=static
jwt_user=user1
jwt_token={token}
versions=
  0.0.42
[jwt]
key={folder}/jwt.key
[policy]
definition={source}/conf/vendor/policy.yml
vendor_roles={source}/conf/vendor/policy.ini
[racksdb]
enabled=no
"""
# Its own program reads where its settings are from a file that only its packages have. RacksDB,
# which draws racks, is switched off; v6.0.0 imports it all the same, and it wants cairo and GTK.
STUBS = """\
import sys
from pathlib import Path
from types import ModuleType
for name, words in {"errors": ["RacksDBSchemaError", "RacksDBFormatError"],
                    "version": ["get_version"], "web.app": ["RacksDBWebBlueprint"]}.items():
    sys.modules[f"racksdb.{name}"] = made = ModuleType(name)
    for word in words:
        setattr(made, word, type(word, (Exception,), {}))
sys.modules["racksdb"], sys.modules["racksdb.web"] = ModuleType("racksdb"), ModuleType("web")
"""
START = f"""{STUBS}\
from rfl.authentication.jwt import JWTManager, jwt_gen_key
from rfl.authentication.user import AuthenticatedUser
from slurmweb.apps import SlurmwebAppSeed
from slurmweb.apps.agent import SlurmwebAppAgent
from slurmweb.version import get_version
folder, source = Path(sys.argv[1]), Path(sys.argv[2])
key = folder / "jwt.key"
if not key.exists():
    jwt_gen_key(key)
user = AuthenticatedUser(login="user1", groups=[])
bearer = JWTManager.key("slurm-web", "HS256", key).generate(user, 1)
print(get_version(), bearer, flush=True)
SlurmwebAppAgent(SlurmwebAppSeed.with_parameters(
    debug=False, log_flags=[], log_component=None, debug_flags=[],
    conf_defs=source / "conf/vendor/agent.yml", conf=folder / "agent.ini")).run()
"""


def peer(source: Path) -> tuple[Path, Path]:
    """Slurm-web's own environment, made once, and its files as tagged."""
    folder = Path(tempfile.gettempdir()) / "corral-bench-slurm-web"
    python, files = folder / "venv" / "bin" / "python", folder / "source"
    if not (folder / "complete").exists():
        files.mkdir(parents=True, exist_ok=True)
        kept = subprocess.run(
            [
                "git",
                "-C",
                str(source),
                "archive",
                TAG,
                "slurmweb",
                "conf",
                "pyproject.toml",
                "README.md",
            ],
            check=True,
            capture_output=True,
        )
        subprocess.run(["tar", "-x", "-C", str(files)], input=kept.stdout, check=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        # RFL.authentication asks for python-ldap, which is compiled and only the gateway's.
        subprocess.run([*pip, "--no-deps", *PINS[: len(RFL)]], check=True)
        subprocess.run([*pip, *PINS[len(RFL) :]], check=True)
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", str(files)], check=True)
        (folder / "complete").touch()
    return python, files


@contextlib.contextmanager
def running(argv: list[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and the first line it prints."""
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            line = server.stdout.readline() if server.stdout else ""
            if not line:
                server.wait(30)
                log.seek(0)
                raise SystemExit(f"{argv[0]} ended:\n{log.read()[-2000:]}")
            yield server, line
        finally:
            server.terminate()


def answering(url: str) -> None:
    """Wait until somebody listens there."""
    for _ in range(600):
        with contextlib.suppress(httpx.HTTPError):
            httpx.get(url, timeout=60)
            return
        time.sleep(0.2)
    raise SystemExit(f"nobody answers at {url}")


def timed(ask: Callable[[str], httpx.Response], path: str) -> tuple[float, int]:
    """Seconds and bytes of one answer."""
    begin = time.monotonic()
    reply = ask(path)
    reply.raise_for_status()
    return time.monotonic() - begin, len(reply.content)


def compare(ways: Mapping[str, Server], rounds: int, slurm: str) -> None:
    """All in turns; medians, and calls to slurmrestd while several look at once."""
    for what in ("nodes", "jobs"):
        times: dict[str, list[float]] = {name: [] for name in ways}
        sizes: dict[str, int] = {}
        for _ in range(rounds):
            for name, server in ways.items():
                took, sizes[name] = timed(server.client.get, server.paths[what])
                times[name].append(took)
        for name, seconds in times.items():
            figures = f"median {median(seconds):.3f} s, most {max(seconds):.3f} s"
            print(f"{what:30} {name:10} {figures}, {sizes[name] / 1000:.0f} kB")
    for name, server in ways.items():
        before = httpx.get(f"{slurm}/count").json()
        begin = time.monotonic()
        with ThreadPoolExecutor(VIEWERS) as pool:
            for reply in pool.map(server.client.get, [server.paths["nodes"]] * VIEWERS):
                reply.raise_for_status()
        took = time.monotonic() - begin
        calls = httpx.get(f"{slurm}/count").json() - before
        print(
            f"{f'{VIEWERS} viewers of the nodes at once':30} {name:10} {took:.3f} s, "
            f"{calls} calls to slurmrestd"
        )


@dataclass(frozen=True)
class Server:
    """One of those that are compared: its process, a client of it, its paths by what they list."""

    process: subprocess.Popen[str]
    client: httpx.Client
    paths: Mapping[str, str]


def slurm_web(source: Path, folder: Path, slurm: str, stack: contextlib.ExitStack) -> Server:
    """Slurm-web's agent."""
    python, files = peer(source)
    settings = SITE.format(port=AGENT, slurm=slurm, token=token(), folder=folder, source=files)
    (folder / "agent.ini").write_text(settings)
    start = [str(python), "-c", START, str(folder), str(files)]
    agent, line = stack.enter_context(running(start))
    version, bearer = line.split()
    url = f"http://127.0.0.1:{AGENT}"
    answering(f"{url}/version")
    headers = {"Authorization": f"Bearer {bearer}"}
    client = stack.enter_context(httpx.Client(base_url=url, headers=headers, timeout=300))
    paths = {"first": "nodes", "nodes": "nodes", "jobs": "jobs"}
    return Server(agent, client, {what: f"/v{version}/{path}" for what, path in paths.items()})


def the_page(slurm: str, stack: contextlib.ExitStack) -> Server:
    """Corral's page."""
    server, url = stack.enter_context(page(slurm))
    client = stack.enter_context(httpx.Client(base_url=url, timeout=300))
    client.headers.update(session_headers(client.post("/api/login", json={"token": token()})))
    # Its first poll reads nodes and all jobs.
    paths = {"first": "cluster", "nodes": "nodes", "jobs": "jobs?limit=100"}
    return Server(server, client, {what: f"/api/{path}" for what, path in paths.items()})


def has_tag(source: Path) -> bool:
    """Whether a folder is a checkout with the tag that is compared."""
    words = ["git", "-C", str(source), "rev-parse", "-q", "--verify", f"{TAG}^{{commit}}"]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


def main() -> None:
    """Start all, compare, end all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", type=Path, help="git checkout of Slurm-web")
    for name, value in (("nodes", 1000), ("jobs", 5000), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    if args.source and not has_tag(args.source):
        parser.error(f"{args.source} is not a git checkout of Slurm-web with its tag {TAG}")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        print(f"{machine()}; {args.nodes} nodes, {args.jobs} jobs")
        slurm = stack.enter_context(player(args.nodes, args.jobs))
        ways = {"Slurm-web": slurm_web(args.source, folder, slurm, stack)} if args.source else {}
        ways["the page"] = the_page(slurm, stack)
        for name, server in ways.items():
            took, _ = timed(server.client.get, server.paths["first"])
            print(f"{'its first view ever':30} {name:10} {took:.3f} s")
        compare(ways, args.rounds, slurm)
        for name, server in ways.items():
            print(f"{'memory at most':30} {name:10} {memory(server.process.pid, 'VmHWM'):.0f} MiB")


if __name__ == "__main__":
    main()
