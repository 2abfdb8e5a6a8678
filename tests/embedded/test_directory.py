"""People of an LDAP directory: a real OpenLDAP with TLS on a node, and SSSD on all of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.embedded.conftest import Live, named
from tests.embedded.test_doctor import ids, report_of
from tests.embedded.test_login import address as address_of
from tests.embedded.test_page_passwords import WRONG, Site
from tests.embedded.test_prove import proof_of

from corral import api
from corral.errors import Code, CorralError
from corral.hosts import process
from corral.hosts.quote import sh
from corral.hosts.transport import Result
from corral.prove.context import as_user
from corral.prove.model import Verdict
from corral.spec.models import ClusterSpec
from corral.spec.sections.directory import Directory, DirectoryGroup
from corral.spec.sections.page_login import PageLogin
from corral.spec.sections.people import Access, Account, Qos, User
from corral.spec.sections.services import Page, Services
from corral.state_dir import cluster_dir

SERVER = "node2"
PROGRAM = Path(__file__).parent / "programs" / "openldap.sh"
SECRET = "of-the-reader-7"
HOMES = "/shared/home"
SSSD = "/etc/sssd/conf.d/50-corral.conf"
KEY = "/root/lina.key"
TIMED = sh("systemctl start corral-group-accounts.service")
JOURNAL = sh("journalctl -q -u corral-group-accounts.service -o cat -n 20 --no-pager")


@dataclass(frozen=True)
class Place:
    """A cluster whose third node has the directory, and the files that the cluster file names."""

    plain: Live
    folder: Path

    @property
    def password(self) -> Path:
        return self.folder / "password"

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def spec(self, **changes: object) -> ClusterSpec:
        directory = Directory(
            uris=(f"ldaps://{SERVER}",),
            base="dc=example,dc=org",
            ca=str(self.ca),
            bind_dn="cn=reader,dc=example,dc=org",
            password_file=str(self.password),
            homes=HOMES,
            groups=(DirectoryGroup(name="vision", account="vision", qos="long"),),
        )
        return self.plain.spec.model_copy(
            update={"directory": directory.model_copy(update=changes)}
        )

    def live(self) -> Live:
        return Live(self.spec(), self.plain.facts)

    def up(self, **changes: object) -> None:
        asyncio.run(api.up(self.spec(**changes)))

    def pending(self, **changes: object) -> list[str]:
        plan = asyncio.run(api.plan(self.spec(**changes)))
        return [c.change.summary for s in plan.stages for c in s.changes]

    def modify(self, verb: str, member: str) -> None:
        """Add a member to the group in the directory, or delete one."""
        text = (
            "dn: cn=vision,ou=groups,dc=example,dc=org\nchangetype: modify\n"
            f"{verb}: memberUid\nmemberUid: {member}\n"
        )
        script = sh(
            "ldapmodify -x -D cn=admin,dc=example,dc=org -w {secret} -H ldapi:///", secret=SECRET
        )
        done = self.plain.run(SERVER, script, stdin=text.encode())
        assert done.ok, done.tail

    def hide(self, *people: str) -> None:
        """Hide these people's entries from everybody but the administrator, and no others."""
        rules = [
            f'to dn.exact="uid={person},ou=people,dc=example,dc=org" by * none' for person in people
        ]
        rules.append("to attrs=userPassword by self write by anonymous auth by * none")
        rules.append("to * by * read")
        text = "dn: olcDatabase={1}mdb,cn=config\nchangetype: modify\nreplace: olcAccess\n"
        text += "".join(f"olcAccess: {{{i}}}{rule}\n" for i, rule in enumerate(rules))
        script = sh("ldapmodify -Q -Y EXTERNAL -H ldapi:///")
        done = self.plain.run(SERVER, script, stdin=text.encode())
        assert done.ok, done.tail

    def association(self, user: str) -> str:
        """``ACCOUNT|DEFAULT QOS|MOST SUBMITTED`` by Corral of a user, a line each."""
        script = sh(
            "sacctmgr -nP show assoc user={user} format=Account,DefaultQOS,GrpSubmitJobs", user=user
        )
        return self.plain.run(self.plain.controller, script).stdout.strip()


@pytest.fixture(scope="module")
def place(
    fresh_cluster: Callable[[ClusterSpec], Live], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """The cluster with its directory, brought up without and then with it."""
    spec = named(
        f"people-ldap-{os.getpid()}",
        users=(User(name="corral", uid=2000),),
        accounts=(Account(name="vision", qos=("normal", "long")),),
        qos=(Qos(name="long"),),
    )
    here = Place(fresh_cluster(spec), tmp_path_factory.mktemp("directory"))
    key = here.folder / "key"
    made = asyncio.run(
        process.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], timeout=20)
    )
    assert made.status == 0
    public = key.with_suffix(".pub").read_text("ascii").strip()
    served = here.plain.run(
        SERVER,
        sh("cat >/root/openldap && sh /root/openldap {n} {s} {k}", n=SERVER, s=SECRET, k=public),
        stdin=PROGRAM.read_bytes(),
        timeout=300,
    )
    assert served.ok, served.tail
    here.ca.write_text(served.stdout, "ascii")
    here.password.write_text(f"{SECRET}\n", "ascii")
    put = here.plain.run("node0", sh("umask 077 && cat >{key}", key=KEY), stdin=key.read_bytes())
    assert put.ok
    here.up()
    yield here


def logged_in(place: Place, user: str, node: str, command: str) -> Result:
    """The end of a command that a user runs by logging in to the node with lina's key."""
    script = sh(
        "ssh -i {key} -o StrictHostKeyChecking=no -o BatchMode=yes {to} {command}",
        key=KEY,
        to=f"{user}@{node}",
        command=command,
    )
    return place.plain.run("node0", script, timeout=120)


def over_ssh(place: Place, node: str, command: str) -> str:
    """What the command prints that lina runs by logging in to the node with her key."""
    done = logged_in(place, "lina", node, command)
    assert done.ok, done.tail
    return done.stdout


def test_a_second_plan_is_empty(place: Place) -> None:
    assert place.pending() == []


def test_a_person_runs_a_job_that_is_accounted_to_them(place: Place) -> None:
    home = sh("stat -c '%U %G %a' {home}", home=f"{HOMES}/lina")
    assert not place.plain.run("node0", home).ok
    assert over_ssh(place, "node0", "id -u; pwd").split() == ["5001", f"{HOMES}/lina"]
    assert place.plain.run("node1", home).stdout.split() == ["lina", "vision", "700"]
    job = over_ssh(
        place, "node0", "sbatch --parsable --wait -N3 --mem=32 -o out --wrap 'srun id -un'"
    ).strip()
    assert over_ssh(place, "node1", "cat out").split() == ["lina"] * 3
    record = sh("sacct -X -n -P -j {job} -o User,Account,QOS,State", job=job)
    end = time.monotonic() + 60
    while (line := place.plain.run("node0", record).stdout.strip()) != "lina|vision|long|COMPLETED":
        assert time.monotonic() < end, line
        time.sleep(0.5)


def test_a_person_goes_from_node_to_node_without_a_key(place: Place) -> None:
    """Lina's key is on node0's root alone: node1 has nothing of hers but her home."""
    onward = "ssh -o BatchMode=yes node2 'id -un; hostname' 2>&1; ls ~/.ssh/id_* 2>/dev/null"
    assert "Host key verification failed" in over_ssh(place, "node1", f"{onward}; true")
    access = Access(between_nodes=True)
    spec = place.spec().model_copy(update={"access": access})
    try:
        asyncio.run(api.up(spec))
        assert over_ssh(place, "node1", f"{onward}; true").split() == ["lina", "node2"]
    finally:
        place.up()
    assert "Host key verification failed" in over_ssh(place, "node1", f"{onward}; true")


def laptop(place: Place, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of Corral's with its own profiles and state: without the cluster file."""
    return subprocess.run(
        [sys.executable, "-m", "corral", *words],
        env={**os.environ, "CORRAL_STATE_DIR": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_a_person_runs_corrals_own_jobs_by_a_profile(place: Place, tmp_path: Path) -> None:
    """Who is not in the cluster file has folders of jobs, too: nothing was made by hand."""
    address = address_of(place.plain)
    name, key = f"lina-{os.getpid()}", str(place.folder / "key")
    login = ("login", f"lina@{address}", "--name", name, "-i", key, "--accept-host-key")
    done = laptop(place, tmp_path, *login)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no association" not in done.stdout + done.stderr
    ran = laptop(place, tmp_path, "run", "-c", name, "-N2", "--", "hostname", "-s")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(ran.stdout.splitlines()) == 2
    jobs = place.plain.run("node0", sh("stat -c '%U %a' /shared/corral/jobs/lina"))
    assert jobs.stdout.split() == ["lina", "700"]


def test_the_timer_makes_folders_of_who_comes_later(place: Place) -> None:
    place.modify("add", "pia")
    try:
        made = place.plain.run("node0", sh("systemctl start corral-member-folders.service"))
        assert made.ok, made.tail
        there = place.plain.run("node0", sh("stat -c '%U %a' /shared/corral/*/pia"))
        assert there.stdout.split("\n")[:3] == ["pia 700"] * 3
    finally:
        place.modify("delete", "pia")


@pytest.mark.slow
def test_a_password_of_the_directory_opens_the_page(place: Place) -> None:
    """By SSSD, for members of its groups; who has not the right one learns nothing of that."""
    page = Page(login=PageLogin(passwords=True))
    spec = place.spec().model_copy(update={"services": Services(ui=True, page=page)})
    try:
        asyncio.run(api.up(spec))
    except CorralError as error:
        if error.command == "pip download":
            pytest.skip(f"no package index: {error}")
        raise
    try:
        site = Site(place.live())
        reply = site.log_in(("lina", SECRET))
        assert reply["out"][0][1].get("user") == "lina", reply
        assert reply["job"][0] == 200, reply["job"]
        assert site.refused("lina", SECRET + "x") == (401, WRONG)
        # Closed by the directory's rules, as SSSD has them: PAM's account is asked in each login.
        site.root(sh("sed -i '/^simple_allow_groups/a simple_deny_users = milo' {f}", f=SSSD))
        site.root(sh("systemctl restart sssd"))
        status, words = site.refused("milo", SECRET)
        assert (status, words) == (403, "the account of milo is not open on this cluster")
        assert site.refused("milo", "x") == (401, WRONG)
        for user in ("sly", "otto", "corral"):  # entries that would be somebody of the machine
            assert site.refused(user, SECRET) == (401, WRONG)
    finally:
        place.up()


def test_an_entry_with_the_name_of_a_local_user_lets_nobody_in_as_them(place: Place) -> None:
    assert over_ssh(place, "node1", "id -un").strip() == "lina"
    place.modify("add", "corral")
    try:
        refused = logged_in(place, "corral", "node1", "id -un")
        assert not refused.ok
        assert "Permission denied (publickey" in refused.stderr
        # SSSD itself does not know the entry, so it takes no password for the name either.
        assert not place.plain.run("node1", sh("getent -s sss passwd corral")).ok
        assert not place.plain.run("node1", sh("sss_ssh_authorizedkeys corral | grep .")).ok
    finally:
        place.modify("delete", "corral")


def test_an_entry_with_a_number_or_group_of_the_machine_is_not_known(place: Place) -> None:
    slurm = place.plain.run("node1", sh("getent passwd slurm")).stdout
    assert slurm.split(":")[2:4] == ["64030", "64030"]
    for name in ("sly", "gus", "otto"):
        assert place.plain.run("node1", sh("getent passwd {n}", n=name)).stdout == ""
        assert not logged_in(place, name, "node1", "id").ok
    assert not place.plain.run("node1", sh("getent -s sss passwd 64030")).ok
    assert not place.plain.run("node1", sh("getent -s sss group sudo")).ok
    assert place.plain.run("node1", sh("id -Gn lina")).stdout.split() == ["vision"]
    assert "lina" not in place.plain.run("node1", sh("getent group sudo")).stdout


def test_sssd_does_not_start_where_the_machines_own_cannot_be_left_out(place: Place) -> None:
    try:
        named_so = sh("echo 'two words:x:6500:' >>/etc/group && systemctl restart sssd")
        assert not place.plain.run("node2", named_so).ok
        why = place.plain.run("node2", sh("journalctl -q -u sssd -n 15 --no-pager")).stdout
        assert "SSSD can hold no list with two words" in why
    finally:
        again = sh(
            "sed -i '/^two words:/d' /etc/group && systemctl reset-failed sssd; "
            "systemctl restart sssd"
        )
        done = place.plain.run("node2", again)
        assert done.ok, done.tail


def test_a_member_has_an_account_after_the_next_run_and_one_who_left_submits_no_more(
    place: Place,
) -> None:
    assert place.association("milo") == ""
    place.modify("add", "milo")
    assert sorted(place.pending()) == [
        "add milo to account vision",
        "folders of jobs for milo in /shared",
    ]
    place.up()
    assert place.association("milo") == "vision|long|"
    assert place.pending() == []
    submit = as_user("milo", sh("cd /tmp && sbatch --mem=32 -o /dev/null --wrap true"))
    assert place.plain.run("node0", submit).ok
    place.modify("delete", "milo")
    assert place.pending() == ["milo left the group of account vision: no new jobs in it"]
    # What the timer starts; it closes whom it misses twice running.
    for left in ("", "0"):
        timed = place.plain.run("node0", TIMED)
        assert timed.ok, timed.tail
        assert place.association("milo") == f"vision|long|{left}"
    refused = place.plain.run("node0", submit)
    assert not refused.ok
    assert "Job violates accounting/QOS policy" in refused.stderr
    assert place.pending() == []
    place.modify("add", "milo")
    assert place.pending() == ["milo may submit in account vision again"]
    place.up()
    assert place.association("milo") == "vision|long|"


def test_who_was_closed_by_hand_stays_closed(place: Place) -> None:
    limit = "sacctmgr -iQ modify user where name=lina account=vision set MaxSubmitJobs={n}"
    assert place.plain.run("node0", sh(limit, n=0)).ok
    try:
        assert place.plain.run("node0", TIMED).ok
        assert place.pending() == []
        shown = sh("sacctmgr -nP show assoc user=lina format=MaxSubmitJobs,GrpSubmitJobs")
        assert place.plain.run("node0", shown).stdout.strip() == "0|"
        submit = as_user("lina", sh("cd /tmp && sbatch --mem=32 -o /dev/null --wrap true"))
        assert "accounting/QOS policy" in place.plain.run("node0", submit).stderr
    finally:
        assert place.plain.run("node0", sh(limit, n=-1)).ok


def test_a_group_that_is_suddenly_empty_closes_nobody_until_a_person_wants_it(
    place: Place,
) -> None:
    many = ("lina", "milo", "nora", "olaf", "pia")
    for name in many[2:]:  # the others are members already
        place.modify("add", name)
    try:
        place.up()
        assert [place.association(n) for n in many] == ["vision|long|"] * 5
        for name in many:
            place.modify("delete", name)
        for _ in range(2):
            assert not place.plain.run("node0", TIMED).ok
        why = place.plain.run("node0", JOURNAL).stdout
        assert "5 of 5 people are missing from the groups of account vision at once" in why
        assert [place.association(n) for n in many] == ["vision|long|"] * 5
        left = "5 of 5 people left the groups of account vision: no new jobs in it"
        assert place.pending() == [left]
        place.up()
        assert [place.association(n) for n in many] == ["vision|long|0"] * 5
        assert place.pending() == []
    finally:
        place.modify("add", "lina")
        place.up()
    assert place.association("lina") == "vision|long|"


def test_a_member_whose_entry_is_hidden_is_not_closed(place: Place) -> None:
    place.modify("add", "nora")
    place.up()
    assert place.association("nora") == "vision|long|"
    place.hide("nora")
    try:
        forget = sh("sss_cache -u nora; SSS_NSS_USE_MEMCACHE=NO getent -s sss passwd nora")
        assert not place.plain.run("node0", forget).ok
        for _ in range(2):
            assert place.plain.run("node0", TIMED).ok
        assert place.association("nora") == "vision|long|"
        assert place.pending() == []
    finally:
        place.hide()
        place.modify("delete", "nora")
        place.up()


def test_an_entry_with_a_name_or_number_of_the_files_own_user_is_nobody(place: Place) -> None:
    place.modify("add", "corral")
    place.modify("add", "otto")
    try:
        before = place.association("corral")
        place.up()
        assert place.association("corral") == before
        assert place.association("otto") == ""
    finally:
        place.modify("delete", "corral")
        place.modify("delete", "otto")
    assert place.pending() == []


def test_a_group_that_is_not_there_is_named_and_disables_nobody(place: Place) -> None:
    wrong = (
        DirectoryGroup(name="visoin", account="vision", qos="long"),
        *place.spec().directory.groups,  # type: ignore[union-attr]
    )
    before = place.association("lina")
    try:
        with pytest.raises(CorralError) as error:
            place.up(groups=wrong)
        assert "visoin is a group that SSSD does not know" in error.value.tail
        assert place.association("lina") == before
    finally:
        place.up()


def test_a_wrong_password_is_named_and_is_nowhere_to_be_read(place: Place) -> None:
    place.password.write_text("another-word-3\n", "ascii")
    try:
        with pytest.raises(CorralError) as error:
            place.up()
        assert error.value.code is Code.GATE_FAILED
        assert "refuses the password: correct directory.bind_dn" in error.value.tail
        (result,) = proof_of(place.live(), ("smoke.directory",)).results
        assert result.verdict is Verdict.FAIL
        assert "node0 ldaps://node2 refuses the password" in result.summary
        assert "F446" in ids(report_of(place.live()))
    finally:
        place.password.write_text(f"{SECRET}\n", "ascii")
        place.up()
    (result,) = proof_of(place.live(), ("smoke.directory",)).results
    assert result.verdict is Verdict.PASS, result.summary
    assert "F446" not in ids(report_of(place.live()))
    folder = cluster_dir(place.plain.spec.name)
    kept = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    assert kept
    assert not [text for text in kept if SECRET.encode() in text or b"another-word-3" in text]
    plan = asyncio.run(api.plan(place.spec(base="dc=example,dc=org", every="30m")))
    assert SECRET not in str(plan)
    readers = sh(
        "find / -xdev -type f -perm /044 -newer {key} -exec grep -lF {secret} {{}} +; true",
        key=KEY,
        secret=SECRET,
    )
    readable = place.plain.run("node0", readers, timeout=120).stdout.split()
    assert [f for f in readable if not f.startswith("/etc/sssd/")] == []
    modes = place.plain.run("node0", sh("stat -c %U:%G:%A /etc/sssd/conf.d/*")).stdout.split()
    assert all(mode in ("root:root:-rw-------", "root:root:-rw-r-----") for mode in modes)


def test_a_server_that_is_down_is_named_and_its_people_stay_known(place: Place) -> None:
    stop = sh("systemctl stop slapd")
    assert place.plain.run(SERVER, stop).ok
    try:
        (result,) = proof_of(place.live(), ("smoke.directory",)).results
        assert result.verdict is Verdict.FAIL
        assert "node1 ldaps://node2 does not answer" in result.summary
        assert "F446" in ids(report_of(place.live()))
        before = place.association("lina")
        place.plain.run("node0", sh("systemctl start corral-group-accounts.service"))
        assert place.association("lina") == before
        assert place.plain.run("node0", sh("id lina")).ok
    finally:
        assert place.plain.run(SERVER, sh("systemctl start slapd")).ok


def test_another_authority_is_not_trusted(place: Place) -> None:
    right = place.ca.read_text("ascii")
    other = place.plain.run(
        "node0",
        sh(
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout /dev/null "
            "2>/dev/null"
        ),
    )
    place.ca.write_text(other.stdout, "ascii")
    try:
        with pytest.raises(CorralError) as error:
            place.up()
        assert "has no certificate that is good here: directory.ca" in error.value.tail
    finally:
        place.ca.write_text(right, "ascii")
        place.up()


def refused(place: Place, why: str) -> None:
    """Nothing is done, for this reason."""
    with pytest.raises(CorralError) as error:
        place.up()
    assert why in str(error.value) + error.value.tail + (error.value.hint or "")


def test_a_command_for_keys_that_wins_over_the_directorys_is_refused(place: Place) -> None:
    own = "/etc/ssh/sshd_config.d/05-own.conf"
    add = sh("printf 'AuthorizedKeysCommand /bin/true\\n' >{own}", own=own)
    assert place.plain.run("node1", add).ok
    try:
        refused(place, f"sshd asks /bin/true {own} ")
    finally:
        assert place.plain.run("node1", sh("rm {own}", own=own)).ok
    assert place.pending() == []
    # Not node1: its libnss_sss knows for 300 s whom it has just been asked for, without SSSD too.
    assert over_ssh(place, "node0", "id -un").strip() == "lina"


def test_without_the_directory_its_people_are_gone_and_files_stay(place: Place) -> None:
    asyncio.run(api.up(place.plain.spec))
    try:
        assert not place.plain.run("node1", sh("id lina")).ok
        assert not place.plain.run("node1", sh("systemctl -q is-active sssd")).ok
        assert not place.plain.run(
            "node1", sh("grep -q pam_mkhomedir /etc/pam.d/common-session")
        ).ok
        left = place.plain.run("node1", sh("ls /etc/corral/directory* /etc/sssd/conf.d/*corral*"))
        assert left.stdout == ""
        assert place.plain.run("node1", sh("ls -d {home}", home=f"{HOMES}/lina")).ok
        # sshd reads Corral's folder first, so another command would lose.
        lines = b"\nAuthorizedKeysCommand /bin/true\nAuthorizedKeysCommandUser nobody\n"
        add = sh("cat >>/etc/ssh/sshd_config")
        assert place.plain.run("node1", add, stdin=lines).ok
        refused(place, "sshd asks /bin/true /etc/ssh/sshd_config for public keys")
        take = sh("sed -i '/^AuthorizedKeysCommand/d' /etc/ssh/sshd_config")
        assert place.plain.run("node1", take).ok
        plan = asyncio.run(api.plan(place.plain.spec))
        assert not [c for s in plan.stages for c in s.changes]
    finally:
        place.up()
    assert place.plain.run("node1", sh("id lina")).ok
