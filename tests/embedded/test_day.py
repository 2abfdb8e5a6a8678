"""A day of a team: people of a directory, laptops, and a night with a backup. No job is lost.

Two laptops are network namespaces, routed to the cluster like machines of another office. What each
person submits is written down with the account that has to pay; in the evening accounting must have
exactly that.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.test_backup import age_key
from tests.embedded.test_backup_controller import pinged, until
from tests.embedded.test_directory import PROGRAM, SECRET
from tests.embedded.test_forward import JUPYTER, WHEELS, Laptop, event
from tests.embedded.test_node_replacement import REQUEUED_S
from tests.embedded.test_tools import install

from corral import api
from corral.api.operations.encryption import encryption_of
from corral.apply.session import Session
from corral.hosts.quote import sh
from corral.hosts.sshkeys import make_key
from corral.spec.models import ClusterSpec
from corral.spec.sections.directory import Directory, DirectoryGroup
from corral.spec.sections.people import Account, User
from corral.state.pyenv import PythonEnv

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("age"), reason="age is not installed"),
]
MEMBERS: Final = {"lina": "vision", "milo": "vision", "nora": "vision", "olaf": "speech"}
"""Pia comes at noon."""
CONTROLLER, BACKUP, DIRECTORY, REPLACED = "node0", "node1", "node2", "node3"
ONCE: Final = 'if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then sleep 3000; fi; echo again'
"""Runs until something ends it; started again, it completes."""
SERVE: Final = "echo of $(id -un) >page && exec python3 -m http.server 8123 --bind 127.0.0.1"


@dataclass(frozen=True)
class Desk(Laptop):
    """One person's profiles and key on a laptop that is a network namespace."""

    user: str
    namespace: str

    @property
    def key(self) -> Path:
        return self.home / "id_lab"

    @property
    def public(self) -> str:
        return self.key.with_suffix(".pub").read_text().strip()

    def argv(self, *words: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *super().argv(*words)]

    def log_in(self, address: str, name: str) -> None:
        words = ("login", f"{self.user}@{address}", "--name", name, "-i", str(self.key))
        self.good(*words, "--accept-host-key")


@dataclass
class Day:
    """The cluster, its people, and what they submitted: user, account and expected state by job."""

    live: Live
    desks: dict[str, Desk]
    submitted: dict[str, tuple[str, str, str]] = field(default_factory=dict)

    def submits(self, user: str, *words: str, state: str = "COMPLETED", array: int = 0) -> str:
        job = self.desks[user].submitted(*words)
        account = MEMBERS.get(user, "speech")
        for label in [f"{job}_{i}" for i in range(array)] or [job]:
            self.submitted[label] = (user, account, state)
        return job

    def runs(self, job: str, seconds: float = 120) -> None:
        shown = sh("squeue -h -o %T -j {job}", job=job)
        until(
            lambda: self.live.run(BACKUP, shown).stdout.strip() == "RUNNING",
            seconds,
            self.queue,
        )

    def queue(self) -> str:
        return self.live.run(BACKUP, sh("squeue -o '%i %u %P %T %r %N'")).stdout

    def empty(self, seconds: float) -> None:
        shown = sh("squeue -h")
        until(lambda: not self.live.run(BACKUP, shown).stdout.strip(), seconds, self.queue)

    def accounted(self) -> dict[str, tuple[str, str, str]]:
        """What accounting has of these people's jobs."""
        users = ",".join([*MEMBERS, "pia"])
        script = sh("sacct -anPX -S now-1days -u {u} -o JobID,User,Account,State", u=users)
        rows = self.live.run(CONTROLLER, script).stdout.split("\n")
        fields = [row.split("|") for row in rows if row]
        return {job: (user, account, state.split()[0]) for job, user, account, state in fields}


def host(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout


@contextmanager
def laptop(number: int) -> Iterator[str]:
    """A network namespace whose only way out is a routed link to this machine."""
    name, link, net = f"day{number}-{os.getpid()}", f"day{number}", f"10.213.{number}"
    host("ip", "netns", "add", name)
    try:
        host("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        host("ip", "address", "add", f"{net}.1/30", "dev", link)
        host("ip", "link", "set", link, "up")
        host("ip", "-n", name, "address", "add", f"{net}.2/30", "dev", "eth0")
        for device in ("lo", "eth0"):
            host("ip", "-n", name, "link", "set", device, "up")
        host("ip", "-n", name, "route", "add", "default", "via", f"{net}.1")
        yield name
    finally:
        host("ip", "netns", "del", name)


def directory_of(folder: Path) -> Directory:
    return Directory(
        uris=(f"ldaps://{DIRECTORY}",),
        base="dc=example,dc=org",
        ca=str(folder / "ca.pem"),
        bind_dn="cn=reader,dc=example,dc=org",
        password_file=str(folder / "password"),
        homes="/shared/home",
        groups=tuple(DirectoryGroup(name=n, account=n) for n in ("vision", "speech")),
    )


def changed(live: Live, ldif: str) -> None:
    """The directory's own administrator adds and changes entries."""
    script = sh("ldapmodify -x -D cn=admin,dc=example,dc=org -w {s} -H ldapi:///", s=SECRET)
    done = live.run(DIRECTORY, script, stdin=ldif.encode())
    assert done.ok, done.tail


def entry(user: str, public: str, group: str) -> str:
    return f"""dn: uid={user},ou=people,dc=example,dc=org
changetype: modify
replace: sshPublicKey
sshPublicKey: {public}

dn: cn={group},ou=groups,dc=example,dc=org
changetype: modify
add: memberUid
memberUid: {user}

"""


SPEECH: Final = """dn: cn=speech,ou=groups,dc=example,dc=org
changetype: add
objectClass: posixGroup
cn: speech
gidNumber: 5100

"""


def serve_directory(live: Live, folder: Path, desks: dict[str, Desk]) -> None:
    """A real OpenLDAP with TLS on a node, with the people, their keys and two groups."""
    words = sh(
        "cat >/root/openldap && sh /root/openldap {n} {s} {k}",
        n=DIRECTORY,
        s=SECRET,
        k=desks["lina"].public,
    )
    served = live.run(DIRECTORY, words, stdin=PROGRAM.read_bytes(), timeout=300)
    assert served.ok, served.tail
    (folder / "ca.pem").write_text(served.stdout, "ascii")
    (folder / "password").write_text(f"{SECRET}\n", "ascii")
    people = {name: group for name, group in MEMBERS.items() if name != "lina"}
    changed(live, SPEECH + "".join(entry(n, desks[n].public, g) for n, g in people.items()))


def spec_of(plain: ClusterSpec) -> ClusterSpec:
    """Four nodes, a second controller, jobs that may be preempted in a separate partition."""
    data = plain.model_dump(mode="json", exclude_defaults=True)
    data["groups"][0]["nodes"] = "node[0-3]"
    group = data["groups"][0]["name"]
    data["partitions"] = [
        {"name": "main", "groups": [group], "default": True, "priority_tier": 2},
        {"name": "spare", "groups": [group], "preempt_mode": "requeue"},
    ]
    backup = {"node": BACKUP, "state": "/shared/slurmctld"}
    data["slurm"] = {**data.get("slurm", {}), "backup_controller": backup}
    return ClusterSpec.model_validate(data)


@pytest.fixture(scope="module")
def day(
    fresh_cluster: Callable[[ClusterSpec], Live], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Day]:
    folder = tmp_path_factory.mktemp("day")
    spec = spec_of(
        named(
            f"day-{os.getpid()}",
            users=(User(name="corral", uid=2000),),
            accounts=(Account(name="vision"), Account(name="speech")),
        )
    )
    with ExitStack() as stack:
        first, second = (stack.enter_context(laptop(number)) for number in (1, 2))
        where = {"lina": first, "milo": first, "nora": first, "olaf": second, "pia": second}
        desks = {name: Desk(folder / name, name, place) for name, place in where.items()}
        for name, desk in desks.items():
            make_key(desk.key, name)
        plain = fresh_cluster(spec)
        serve_directory(plain, folder, desks)
        full = spec.model_copy(update={"directory": directory_of(folder)})
        asyncio.run(api.up(full))
        yield Day(Live(full, plain.facts), desks)


def address(live: Live, node: str) -> str:
    async def asked(session: Session) -> str:
        return session.addresses()[node]

    return live.with_session(asked)


def at_a_notebook(day: Day) -> None:
    """Nora has JupyterLab as a job, in a browser of her laptop."""
    nora = day.desks["nora"]
    asyncio.run(install(day.live, PythonEnv(JUPYTER, "tools", WHEELS)))
    words = ("notebook", "-w", DIRECTORY, "--mem", "600M", "--python", f"{JUPYTER}/bin/python3")
    with nora.held(*words) as notebook:
        job = str(event(notebook, "submitted")["id"])
        opened = event(notebook, "opened")
        inside = ("nsenter", f"--net=/run/netns/{nora.namespace}")
        assert "JupyterLab" in host(*inside, "curl", "-sfL", opened["url"])
        day.submitted[job] = ("nora", "vision", "CANCELLED")
        nora.good("cancel", job)
        assert event(notebook, "ended")["id"] == int(job)


def in_the_morning(day: Day) -> None:
    """All log in; an array, a sweep, a job over all nodes, a server and a notebook in use."""
    for user in MEMBERS:
        day.desks[user].log_in(address(day.live, CONTROLLER), "lab")
    day.submits("nora", "--array", "0-3", "--", "sh", "-c", "sleep 2; hostname", array=4)
    day.submits("olaf", "--sweep", "lr=0.1,0.2", "--", "echo", "{lr}", array=2)
    day.submits("lina", "-N4", "--", "hostname", "-s")
    served = day.submits("milo", "-w", DIRECTORY, "--", "sh", "-c", SERVE, state="CANCELLED")
    day.runs(served)
    milo = day.desks["milo"]
    with subprocess.Popen(
        milo.argv("forward", served, "8123", "--json"),
        env=milo.environ,
        cwd=milo.home,
        stdout=subprocess.PIPE,
        text=True,
    ) as tunnel:
        assert tunnel.stdout is not None
        url = next(m[0] for line in tunnel.stdout if (m := re.search(r"http://\S+?/(?=\W)", line)))
        inside = ("nsenter", f"--net=/run/netns/{milo.namespace}")
        assert host(*inside, "curl", "-sf", f"{url}page").strip() == "of milo"
        milo.good("cancel", served)
        tunnel.wait(60)
    at_a_notebook(day)
    day.empty(120)


GET: Final = (
    "import sys,urllib.request as u; print(u.urlopen(sys.argv[1], timeout=60).read().decode())"
)


def at_noon(day: Day) -> None:
    """Somebody new comes; a job that may wait makes room for one that may not, and goes on."""
    pia = day.desks["pia"]
    changed(day.live, entry("pia", pia.public, "speech"))
    for unit in ("corral-group-accounts", "corral-member-folders"):
        made = day.live.run(CONTROLLER, sh("systemctl start {u}.service", u=unit), timeout=120)
        assert made.ok, made.tail
    pia.log_in(address(day.live, CONTROLLER), "lab")
    spare = ("-p", "spare", "-N4", "--exclusive", "--requeue")
    waits = day.submits("nora", *spare, "--", "sh", "-c", ONCE)
    day.runs(waits)
    day.submits("pia", "-N4", "--exclusive", "--", "hostname", "-s")
    day.empty(REQUEUED_S + 120)
    assert "again" in day.desks["nora"].good("logs", waits)


def standby(live: Live) -> str:
    """What the second controller is at."""
    seen = sh("timeout 30 scontrol ping 2>&1; tail -n 25 /var/log/slurm/slurmctld.log; true")
    return live.run(BACKUP, seen).stdout


def in_the_afternoon(day: Day) -> None:
    """The controller's machine dies under load, then one of the others."""
    lina, olaf = day.desks["lina"], day.desks["olaf"]
    long = day.submits("lina", "-w", REPLACED, "--", "sh", "-c", "sleep 45; echo over")
    day.runs(long)
    saved = sh("touch /shared/slurmctld/now; sleep 6")
    assert day.live.run(BACKUP, saved).ok
    host("podman", "kill", f"corral-{day.live.spec.name}-{CONTROLLER}")
    # It answers a ping while it waits, too (24.11): only a question shows that it took over.
    asked = sh("timeout 20 sinfo -h")
    until(
        lambda: day.live.run(BACKUP, asked).ok, 180, lambda: f"no take-over:\n{standby(day.live)}"
    )
    # Olaf's profile knows the second controller, too.
    assert f"{CONTROLLER}: no answer; by {BACKUP}" in olaf.corral("jobs").stderr
    day.submits("olaf", "-w", DIRECTORY, "--", "hostname")
    asyncio.run(api.up(day.live.spec))
    until(
        lambda: pinged(day.live, BACKUP) == {CONTROLLER: True, BACKUP: True},
        60,
        lambda: "the first controller does not take over again",
    )
    day.empty(300)
    assert "over" in lina.good("logs", long)

    again = day.submits("milo", "-w", REPLACED, "--requeue", "--", "sh", "-c", ONCE)
    day.runs(again)
    host("podman", "rm", "--force", "--time", "0", f"corral-{day.live.spec.name}-{REPLACED}")
    plan = asyncio.run(api.plan_replacement(day.live.spec, REPLACED))
    assert {job.label for job in plan.jobs} == {again}
    done = asyncio.run(api.replace_node(day.live.spec, plan))
    assert done.good, done.fault
    day.empty(REQUEUED_S + 120)
    assert "again" in day.desks["milo"].good("logs", again)


def at_night(day: Day, folder: Path) -> None:
    """A backup is made, accounting's database is dropped, the backup restored."""
    # A restore refuses a backup controller, which would take over meanwhile.
    alone = day.live.spec.slurm.model_copy(update={"backup_controller": None})
    day.live = Live(day.live.spec.model_copy(update={"slurm": alone}), day.live.facts)
    asyncio.run(api.up(day.live.spec))
    private, public = age_key(folder / "key.txt")
    path = folder / "lab.tar.zst.age"
    asyncio.run(api.backup(day.live.spec, path, encryption_of([public])))
    dropped = day.live.run(CONTROLLER, sh("mysql -e 'drop database slurm_acct_db'"))
    assert dropped.ok, dropped.tail
    plan = asyncio.run(api.plan_restore(day.live.spec, path, identities=(private,)))
    asyncio.run(
        api.restore(day.live.spec, path, plan, identities=(private,), force=bool(plan.jobs))
    )


def test_every_job_of_the_day_is_accounted_to_its_user(day: Day, tmp_path: Path) -> None:
    in_the_morning(day)
    at_noon(day)
    in_the_afternoon(day)
    until(lambda: day.accounted() == day.submitted, 120, lambda: f"{day.accounted()}")
    at_night(day, tmp_path)
    assert day.accounted() == day.submitted
    last = day.submits("pia", "-N4", "--", "hostname", "-s")
    assert int(last) > max(int(label.partition("_")[0]) for label in list(day.submitted)[:-1])
    day.empty(120)
    until(lambda: day.accounted() == day.submitted, 120, lambda: f"{day.accounted()}")
    assert asyncio.run(api.plan(day.live.spec)).empty
    assert asyncio.run(api.doctor(day.live.spec)).healthy
