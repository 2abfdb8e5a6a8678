"""Users without root: a login to a real cluster from an account that can do nothing but ssh."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.embedded.conftest import Live, named, needs
from tests.embedded.page_client import Page
from tests.embedded.test_run_commands import ON_A_TERMINAL

from corral import api
from corral.hosts.quote import sh
from corral.hosts.sshkeys import make_key
from corral.spec.models import ClusterSpec
from corral.spec.sections.people import Account, User
from corral.spec.sections.services import Services

ROOT = Path(__file__).parents[2]
LOCAL = f"corral-t{os.getpid()}"
"""An account of this machine without root, sudo and podman."""
EVE = """\
id eve >/dev/null 2>&1 || useradd --create-home --uid 2050 --shell /bin/sh eve || exit 1
install -d -m 0700 -o eve ~eve/.ssh
printf %s {key} > ~eve/.ssh/authorized_keys
chown -R eve ~eve/.ssh"""
PEOPLE = ("alice", "bob", "eve")
"""Eve has an account on the nodes, and the cluster file does not name her."""


@dataclass(frozen=True)
class Laptop:
    """The account LOCAL with one person's key and profiles."""

    home: Path
    key: Path
    checkout: Path
    """Where this account sees the repository, which may be in a folder that is closed to it."""

    @property
    def interpreter(self) -> str:
        """The Python of these tests, as this account reaches it."""
        here = Path(sys.executable)
        if here.is_relative_to(ROOT):
            return str(self.checkout / here.relative_to(ROOT))
        return str(here)

    def corral(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._done([self.interpreter, "-m", "corral", *words], self.home)

    def _as_account(self, command: list[str], folder: Path) -> tuple[list[str], dict[str, str]]:
        """A command line for this account, and its environment."""
        environ = {
            "HOME": str(self.home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": f"{self.checkout}/src:{self.checkout}",
            "CORRAL_STATE_DIR": str(self.home / "state"),
            "XDG_RUNTIME_DIR": str(self.home),
        }
        # A mount of these processes alone: it ends with them.
        mounted = 'mount --bind "$1" "$2" && cd "$3" && shift 3 && exec "$@"'
        argv = ["unshare", "--mount", "sh", "-c", mounted, "sh"]
        argv += [str(ROOT), str(self.checkout), str(folder)]
        argv += ["setpriv", "--reuid", LOCAL, "--regid", LOCAL, "--clear-groups"]
        return [*argv, *command], environ

    def _done(
        self, command: list[str], folder: Path, text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        argv, environ = self._as_account(command, folder)
        return subprocess.run(
            argv,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
            input=text,
        )

    def python(self, program: str) -> str:
        """What a Python program of the same account prints."""
        done = self._done([self.interpreter, "-c", program], self.home)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def on_terminal(self, *words: str) -> str:
        """What a command prints on a terminal."""
        line = shlex.join([self.interpreter, "-m", "corral", *words])
        done = self._done(["script", "-qec", line, "/dev/null"], self.home)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def typed(self, text: str, *words: str) -> str:
        """What a command prints on a terminal where somebody types."""
        argv = [self.interpreter, "-c", ON_A_TERMINAL, self.interpreter, "-m", "corral", *words]
        return self._done(argv, self.home, text).stdout

    @contextmanager
    def held(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on."""
        argv, environ = self._as_account([self.interpreter, "-m", "corral", *words], self.home)
        process = subprocess.Popen(
            argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=60)

    def good(self, *words: str) -> str:
        done = self.corral(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def account() -> Iterator[str]:
    if reason := needs():
        pytest.skip(reason)
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", LOCAL], check=True)
    yield LOCAL
    subprocess.run(["pkill", "-KILL", "-u", LOCAL], check=False)
    subprocess.run(["userdel", "--force", LOCAL], check=True)


@pytest.fixture(scope="module")
def laptops(account: str) -> Iterator[dict[str, Laptop]]:
    # Not pytest's own folder, which is closed to other accounts.
    with tempfile.TemporaryDirectory(prefix="corral-login-") as folder:
        Path(folder).chmod(0o711)
        checkout = Path(folder) / "checkout"
        checkout.mkdir()
        made = {
            name: Laptop(Path(folder) / name, Path(folder) / name / "id_lab", checkout)
            for name in PEOPLE
        }
        for name, laptop in made.items():
            make_key(laptop.key, name)
            subprocess.run(["chown", "-R", f"{account}:{account}", str(laptop.home)], check=True)
        yield made


@pytest.fixture(scope="module")
def lab(laptops: dict[str, Laptop], request: pytest.FixtureRequest) -> Live:
    """A cluster for this file; CORRAL_TEST_CLUSTER=NAME makes it under that name and keeps it."""

    def public(name: str) -> str:
        return laptops[name].key.with_name("id_lab.pub").read_text().strip()

    users = (
        User(name="corral", uid=2000),
        User(name="alice", uid=2001, keys=(public("alice"),), account="vision"),
        User(name="bob", uid=2002, keys=(public("bob"),), account="vision"),
    )
    kept = os.environ.get("CORRAL_TEST_CLUSTER", "")
    name = kept or f"login-{os.getpid()}"
    spec = named(name, users=users, accounts=(Account(name="vision"),))
    if kept:
        asyncio.run(api.up(spec))
        return Live(spec, {})
    bring_up: Callable[[ClusterSpec], Live] = request.getfixturevalue("fresh_cluster")
    return bring_up(spec)


def log_in(lab: Live, laptop: Laptop) -> None:
    laptop.good(
        *("login", f"alice@{address(lab)}", "--name", "lab", "-i", str(laptop.key)),
        "--accept-host-key",
    )


@pytest.fixture(scope="module")
def alice(lab: Live, laptops: dict[str, Laptop]) -> Laptop:
    laptop = laptops["alice"]
    done = laptop.corral("login", f"alice@{address(lab)}", "--name", "lab", "-i", str(laptop.key))
    assert done.returncode == 2, done.stderr
    assert "shows host key SHA256:" in done.stderr
    assert "was not accepted" in done.stderr
    assert "--accept-host-key" in done.stderr
    assert not (laptop.home / "state/profiles/lab").exists()
    log_in(lab, laptop)
    return laptop


@pytest.fixture(scope="module")
def bob(lab: Live, laptops: dict[str, Laptop]) -> Laptop:
    """With an administrator's client file: nobody is asked about the host key."""
    laptop = laptops["bob"]
    file = laptop.home / "lab.json"
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    words = ["export", "client", "-c", lab.spec.name, "--user", "bob", "-o", str(file)]
    subprocess.run([sys.executable, "-m", "corral", *words], env=environ, check=True, timeout=100)
    file.chmod(0o644)
    laptop.good("login", "--client", str(file), "--identity", str(laptop.key))
    return laptop


def address(lab: Live) -> str:
    return lab.with_session(lambda session: _address(session.addresses()[lab.controller]))


async def _address(text: str) -> str:
    return text


def test_a_profile_holds_no_secret_and_is_its_users_alone(alice: Laptop) -> None:
    folder = alice.home / "state/profiles/lab"
    assert folder.stat().st_mode & 0o777 == 0o700
    for file in folder.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
        assert "PRIVATE KEY" not in file.read_text()
    profile = json.loads((folder / "profile.json").read_text())
    assert profile["user"] == "alice"
    assert profile["uid"] == 2001
    assert profile["identity"] == str(alice.key)


def test_a_job_is_its_users_in_slurm_and_on_storage(lab: Live, alice: Laptop) -> None:
    script = alice.home / "hello.py"
    script.write_text("import os; print('uid', os.getuid(), open('more.txt').read())\n")
    (alice.home / "more.txt").write_text("uploaded")
    script.chmod(0o644)
    (alice.home / "more.txt").chmod(0o644)
    shown = alice.good("run", str(script), "-N2", "--folder", str(alice.home / "."))
    assert shown.count("uid 2001 uploaded") == 2
    owner = sh("sacct -nPX -u alice -o user,account,state; stat -c %U /shared/corral/jobs/alice/*")
    seen = lab.run(lab.controller, owner).stdout.splitlines()
    assert "alice|vision|COMPLETED" in seen
    assert {line for line in seen if "|" not in line} == {"alice"}


def test_detached_jobs_are_listed_read_and_cancelled(alice: Laptop) -> None:
    started = alice.good("run", "--detach", "--json", "--", "sh", "-c", "echo begun; sleep 300")
    job = str(json.loads(started.splitlines()[-1])["id"])
    assert any(j["user"] == "alice" for j in json.loads(alice.good("jobs", "--json"))["jobs"])
    alice.good("logs", job)
    alice.good("cancel", job)
    ended = json.loads(alice.good("jobs", "--all", "--json"))["jobs"]
    state = next(j for j in ended if str(j["id"]) == job)["state"]
    assert state in ("CANCELLED", "COMPLETING")


def test_status_is_slurms_and_calls_no_healthy_node_unreachable(alice: Laptop) -> None:
    done = alice.corral("status", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout)
    assert seen["machines_checked"] is False
    assert all(node["usable"] for node in seen["nodes"])
    assert "unreachable" not in done.stdout
    assert "machines were not checked" in alice.good("status")


def test_another_users_job_can_be_seen_and_not_touched(alice: Laptop, bob: Laptop) -> None:
    started = alice.good("run", "--detach", "--json", "--", "sleep", "300")
    job = str(json.loads(started.splitlines()[-1])["id"])
    try:
        assert job in bob.good("jobs")
        refused = bob.corral("cancel", job)
        assert refused.returncode != 0
        assert "bug in Corral" not in refused.stderr
        unread = bob.corral("logs", job)
        assert unread.returncode != 0
        assert "is alice's" in unread.stderr
    finally:
        alice.good("cancel", job)


def test_data_belongs_to_its_user(lab: Live, alice: Laptop) -> None:
    folder = alice.home / "digits"
    folder.mkdir()
    folder.chmod(0o755)
    for number in range(3):
        file = folder / f"{number}.txt"
        file.write_text(str(number))
        file.chmod(0o644)
    alice.good("data", "shard", str(folder))
    owner = sh("stat -c %U /shared/corral/data/alice/digits/*")
    assert set(lab.run(lab.controller, owner).stdout.split()) == {"alice"}


@pytest.fixture
def full(lab: Live, tmp_path: Path) -> Iterator[None]:
    """Alice's folder of jobs is on a file system with quotas, where hers is used up."""
    image, mounted = tmp_path / "quota.img", tmp_path / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(128 << 20)
    quota = """\
mkfs.btrfs -q "$1" >/dev/null 2>&1 && mount -o loop "$1" "$2" && btrfs quota enable "$2" &&
btrfs subvolume create "$2/alice" && btrfs qgroup limit 1M "$2/alice" && sync || exit 1
chown 2001:2001 "$2/alice"; chmod 700 "$2/alice"
dd if=/dev/urandom of="$2/alice/old" bs=64k count=40; sync
umount "$2"
"""
    subprocess.run(["sh", "-c", quota, "sh", str(image), str(mounted)], check=True, timeout=100)
    jobs = "/shared/corral/jobs/alice"
    script = (
        "zcat >/root/quota.img && mkdir -p /mnt/quota && "
        "mount -o loop /root/quota.img /mnt/quota && mount --bind /mnt/quota/alice {jobs}"
    )
    put = lab.run(
        lab.controller, sh(script, jobs=jobs), stdin=gzip.compress(image.read_bytes(), mtime=0)
    )
    assert put.ok, put.tail
    yield
    lab.run(lab.controller, sh("umount {jobs}; umount /mnt/quota; rm /root/quota.img", jobs=jobs))


@pytest.mark.skipif(not shutil.which("mkfs.btrfs"), reason="btrfs-progs is not installed")
@pytest.mark.usefixtures("full")
def test_a_quota_that_is_used_up_is_one_sentence(alice: Laptop) -> None:
    script = alice.home / "big.py"
    script.write_text("#" * (1 << 20))
    script.chmod(0o644)
    for words in ((str(script), "--folder", str(alice.home / ".")), ("--", "hostname")):
        done = alice.corral("run", *words)
        assert done.returncode not in (0, None), done.stdout
        assert "the quota is used up" in done.stderr, done.stderr
        assert "remove what you no longer need" in done.stderr, done.stderr
        assert "bug in Corral" not in done.stderr


def test_ssh_logs_in_as_the_user(lab: Live, alice: Laptop) -> None:
    assert alice.good("ssh", lab.controller, "id", "-un").strip() == "alice"
    assert alice.good("ssh", "node1", "hostname").strip() == "node1"


def test_terminals_are_the_users(alice: Laptop) -> None:
    assert "alice" in alice.on_terminal("run", "-i", "--", "id", "-un")
    assert "alice" in alice.on_terminal("shell", "--", "id", "-un")


def test_env_is_a_file_for_plain_sbatch(lab: Live, alice: Laptop) -> None:
    group = lab.spec.groups[0].name
    text = alice.good("env", group)
    assert text.strip(), "the environment of the group's jobs"
    assert api.group_environment(lab.spec, group).rstrip("\n") == text.rstrip("\n")
    unknown = alice.corral("env", "nobody")
    assert unknown.returncode == 2, unknown.stderr
    assert group in unknown.stderr


def test_bench_read_judges_a_file_of_this_machine(alice: Laptop) -> None:
    log = alice.checkout / "tests/recorded/nccl/dgx1-all-reduce.txt"
    done = alice.corral("bench", "read", str(log), "--json")
    assert done.returncode in (0, 1), done.stderr
    assert [t["collective"] for t in json.loads(done.stdout)["tables"]] == ["all_reduce"]


def test_a_terminal_in_ones_own_job_and_in_no_other(alice: Laptop, bob: Laptop) -> None:
    started = alice.good("run", "--detach", "--json", "-w", "node1", "--", "sleep", "300")
    job = str(json.loads(started.splitlines()[-1])["id"])
    try:
        until_running(alice, job)
        text = 'echo "job=$SLURM_JOB_ID on=$(hostname -s) user=$(id -un)"; exit\n'
        shown = alice.typed(text, "attach", job)
        assert f"job={job} on=node1 user=alice" in shown, shown
        refused = bob.corral("attach", job, "--json")
        assert refused.returncode != 0
        assert "alice's" in refused.stderr, refused.stderr
    finally:
        alice.good("cancel", job)


def until_running(laptop: Laptop, job: str) -> None:
    end = time.monotonic() + 60
    while True:
        listed = json.loads(laptop.good("jobs", "--json"))["jobs"]
        if any(str(j["id"]) == job and j["state"] == "RUNNING" for j in listed):
            return
        assert time.monotonic() < end, listed
        time.sleep(0.5)


def test_recordings_of_a_profiled_job_come_to_its_user(lab: Live, alice: Laptop) -> None:
    put = sh("cat > /usr/local/bin/nsys && chmod 755 /usr/local/bin/nsys")
    program = (Path(__file__).parent / "fake_nsys.sh").read_bytes()
    assert lab.run("node1", put, stdin=program).ok
    assert lab.run(lab.controller, put, stdin=program).ok
    options = ("--detach", "--json", "-w", "node1", "-G1", "--profile", "nsys")
    started = alice.good("run", *options, "--", "true")
    job = str(json.loads(started.splitlines()[-1])["id"])
    alice.good("logs", job, "--follow")
    folder = alice.home / "recordings"
    assert "gemm" in alice.good("profile", job, "-o", str(folder))
    assert [file.name for file in folder.rglob("*.nsys-rep")]
    plain = json.loads(alice.good("run", "--detach", "--json", "--", "true").splitlines()[-1])
    none = alice.corral("profile", str(plain["id"]))
    assert none.returncode != 0
    assert "--profile" in none.stderr


def test_the_page_of_the_controller_is_the_users(lab: Live, alice: Laptop) -> None:
    without = alice.corral("ui", "--json")
    assert without.returncode == 2, without.stderr
    assert "has no page on its controller" in without.stderr
    spec = lab.spec.model_copy(update={"services": Services(ui=True)})
    try:
        asyncio.run(api.up(spec))
        log_in(lab, alice)  # a profile knows of the page from its login
        with alice.held("ui", "--json") as page:
            assert page.stdout is not None
            opened = next(f for line in page.stdout if "code" in (f := json.loads(line)))
            browser = Page(opened["url"])
            assert browser.log_in(opened["code"])["user"] == "alice"
            assert {row[0] for row in browser.ask("nodes")["rows"]} >= {"node0", "node1"}
    finally:
        asyncio.run(api.up(lab.spec))
        log_in(lab, alice)


def test_the_same_from_python(alice: Laptop) -> None:
    program = """
import corral
lab = corral.open("lab")
lines = []
print(lab.run(["id", "-un"], on_line=lambda line: lines.append(line.text)).good, lines)
try:
    lab.drain("node1", "no")
except corral.CorralError as error:
    print(error.code.value)
"""
    assert alice.python(program).splitlines() == ["True ['alice']", "forbidden"]


def test_a_user_whom_the_cluster_file_does_not_name(
    lab: Live, laptops: dict[str, Laptop], alice: Laptop
) -> None:
    eve = laptops["eve"]
    public = eve.key.with_name("id_lab.pub").read_text()
    assert lab.run(lab.controller, sh(EVE, key=public)).ok
    words = ("login", f"eve@{address(lab)}", "--name", "eve", "-i", str(eve.key))
    login = eve.corral(*words, "--accept-host-key")
    assert login.returncode == 0, login.stderr
    assert "eve has no association" in login.stderr
    folder = eve.corral("run", "--", "hostname")
    assert folder.returncode == 2
    assert "corral/jobs/eve is not there, and only root can make it" in folder.stderr
    made = sh("install -d -m 0700 -o eve /shared/corral/jobs/eve")
    assert lab.run(lab.controller, made).ok
    try:
        refused = eve.corral("run", "--", "hostname")
        assert refused.returncode == 1
        assert "eve may not charge an account" in refused.stderr
    finally:
        lab.run(lab.controller, sh("rm -rf /shared/corral/jobs/eve; userdel -f -r eve"))


def test_embedded_clusters_name_the_way_out_without_root(alice: Laptop) -> None:
    for words in (("status", "-c"), ("jobs", "-c"), ("plan",), ("doctor",), ("down", "--yes")):
        done = alice.corral(*words, str(alice.checkout / "examples/laptop.yaml"))
        assert done.returncode == 3, done.stdout + done.stderr
        assert "containers of root on this machine" in done.stderr
        assert "corral login USER@HOST" in done.stderr


@pytest.mark.parametrize(
    "words",
    ["up", "plan", "prove", "doctor", "drain node1 --reason x", "exec -- id", "down --yes"],
)
def test_what_needs_root_names_who_must_do_it(alice: Laptop, words: str) -> None:
    done = alice.corral(*words.split(" ")[:1], "-c", "lab", *words.split(" ")[1:])
    assert done.returncode in (2, 3), done.stdout + done.stderr
    assert "needs an administrator of cluster" in done.stderr


def test_a_changed_host_key_is_refused(alice: Laptop, laptops: dict[str, Laptop]) -> None:
    file = alice.home / "state/profiles/lab/known_hosts"
    good = file.read_text()
    other = laptops["bob"].key.with_name("id_lab.pub").read_text().split()
    node = good.split(" ", 1)[0]
    try:
        file.write_text(f"{node} {other[0]} {other[1]}\n")
        done = alice.corral("jobs")
        assert done.returncode == 3
        assert "the host key changed" in done.stderr
        assert "corral logout" in done.stderr
    finally:
        file.write_text(good)


def test_a_key_that_is_not_the_users_is_refused_with_the_way_out(
    lab: Live, laptops: dict[str, Laptop], bob: Laptop
) -> None:
    words = ("login", f"alice@{address(lab)}", "--name", "wrong", "-i", str(bob.key))
    done = bob.corral(*words, "--accept-host-key")
    assert done.returncode == 3
    assert "alice may not log in with this key" in done.stderr
    assert "administrator" in done.stderr


def test_logout_forgets_the_profile(bob: Laptop, lab: Live) -> None:
    bob.good("logout", lab.spec.name)
    done = bob.corral("jobs")
    assert done.returncode == 2
    assert "corral login USER@HOST" in done.stderr
