"""The directory on a machine: its password and members' accounts, by the real programs."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from corral import agents
from corral.hosts.quote import Script, call, sh
from corral.roles.machine.directory import sssd_conf
from corral.spec.sections.directory import Directory, DirectoryGroup
from corral.state.base import HERE, Context, Seen
from corral.state.system.directory import (
    CONF,
    DirectoryFiles,
    DirectoryPassword,
    GroupAccounts,
    HomesAtLogin,
    HomesFolder,
    KeysFromDirectory,
    MemberFolders,
    OwnSssd,
    RootFile,
)

HERE_CONTEXT = Context("n")
PROGRAM = "state/directory.sh"


@dataclass(frozen=True)
class Site:
    """Programs that stand in for SSSD and slurmdbd: what they know is in files."""

    folder: Path

    def write(self, name: str, *lines: str) -> None:
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))

    def run(self, script: Script, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return subprocess.run(
            ["/bin/sh", "-c", script],
            env={"PATH": path, "SITE": str(self.folder)},
            input=stdin.decode(),
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    def pending(self, *groups: str) -> list[str]:
        return self.run(call(PROGRAM, "group_accounts_pending", "lab", *groups)).stdout.splitlines()

    def timed(self, *groups: str) -> subprocess.CompletedProcess[str]:
        """A run of the timer's."""
        missing = self.folder / "missing"
        return self.run(call(PROGRAM, "group_accounts_timed", missing, "lab", *groups))

    def closed(self) -> list[str]:
        """Whose submissions were closed by sacctmgr, in their order."""
        calls = self.folder / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        closes = [line for line in lines if line.endswith("SubmitJobs=0")]
        return [line.partition("name=")[2].split()[0] for line in closes]


GETENT = """#!/bin/sh
# getent -s SERVICE DATABASE KEY: by name, or a user by number.
awk -F: -v key="$4" -v number="$3" '
  key == "" || $1 == key || (number == "passwd" && $3 == key) { print; found = 1 }
  END { exit found ? 0 : 2 }' "$SITE/$2.$3"
"""
SACCTMGR = """#!/bin/sh
case "$*" in
  *'show assoc cluster='*) # "by-hand" has MaxSubmitJobs in place of GrpSubmitJobs.
    [ "${*##*,}" = GrpSubmitJobs ] && cat "$SITE/associations" || cat "$SITE/by-hand" ;;
  *'show assoc'*) ;;
  *) echo "$*" >>"$SITE/calls" ;;
esac
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("getent", GETENT), ("sacctmgr", SACCTMGR), ("sss_cache", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    here = Site(tmp_path)
    here.write("sss.group", "vision:*:5000:lina,milo", "guests:*:5001:", "speech:*:5002:lina")
    here.write("sss.passwd", *(f"{n}:*:{i}:5000::/h/{n}:/bin/sh" for n, i in PEOPLE.items()))
    here.write("files.passwd", "root:x:0:0::/root:/bin/sh", "ada:x:2001:2001::/home/ada:/bin/sh")
    here.write("associations", "root|||", "root|root||", "vision|||")
    here.write("by-hand", "vision|||", "vision|lina||0", "vision|milo||0")
    return here


PEOPLE = {"lina": 5001, "milo": 5002, "otto": 2001, "ada": 6000, "gone": 5003}


def test_members_are_added_once_and_by_their_first_group_first(site: Site) -> None:
    assert site.pending("vision:vision:high", "speech:speech:") == [
        "add lina vision high first",
        "add milo vision high first",
        "add lina speech - more",
    ]
    site.write("associations", "vision|lina|high|", "vision|milo|high|", "speech|lina||")
    assert site.pending("vision:vision:high", "speech:speech:") == []


def test_who_left_is_closed_and_who_is_back_is_opened(site: Site) -> None:
    site.write("associations", "vision|gone||", "vision|lina||0", "vision|milo||5")
    assert site.pending("vision:vision:") == ["open lina vision", "close gone vision 1 1"]
    site.write("associations", "vision|gone||0", "vision|lina||", "vision|milo||5")
    assert site.pending("vision:vision:") == []


def test_a_member_closed_by_hand_is_not_opened(site: Site) -> None:
    site.write("associations", "vision|lina||", "vision|milo||0")
    assert site.pending("vision:vision:") == ["open milo vision"]
    assert site.timed("vision:vision:").stdout == "open milo vision\n"
    calls = (site.folder / "calls").read_text()
    assert calls == (
        "-iQ modify user where name=milo account=vision cluster=lab set GrpSubmitJobs=-1\n"
    )


def test_others_in_the_account_and_other_accounts_are_left_alone(site: Site) -> None:
    held = ("vision|lina||", "vision|milo||", "vision|ada||", "vision|stranger||", "other|gone||")
    site.write("associations", *held)
    assert site.pending("vision:vision:") == []


def test_a_group_that_is_not_known_closes_nobody(site: Site) -> None:
    site.write("associations", "vision|gone||")
    (problem,) = site.pending("visoin:vision:")
    assert problem.startswith("problem visoin is a group that SSSD does not know: correct")
    (problem, *rest) = site.pending("visoin:vision:", "vision:vision:")
    assert problem.startswith("problem visoin")
    assert rest == ["add lina vision - first", "add milo vision - first"]


def test_an_empty_group_closes_its_former_members(site: Site) -> None:
    site.write("associations", "vision|gone||")
    assert site.pending("guests:vision:") == ["close gone vision 0 0"]


def test_a_member_whose_entry_is_not_shown_now_is_not_closed(site: Site) -> None:
    site.write("associations", "vision|lina||", "vision|milo||", "vision|gone||")
    site.write("sss.passwd", "lina:*:5001:5000::/h/lina:/bin/sh")
    assert site.pending("vision:vision:") == []
    # SSSD answers late: not at the first question for milo, but at the second.
    once = '[ "$2 $4" != "sss milo" ] || ! mv "$SITE/late" "$SITE/asked" 2>/dev/null || exit 2'
    late = GETENT.replace("awk", f"{once}\nawk")
    (site.folder / "bin/getent").write_text(late)
    (site.folder / "late").touch()
    site.write("sss.passwd", *(f"{n}:*:{i}:5000::/h/{n}:/bin/sh" for n, i in PEOPLE.items()))
    site.write("associations", "vision|lina||", "vision|milo||")
    first = site.run(call(PROGRAM, "group_accounts_pending", "lab", "vision:vision:"))
    assert (site.folder / "asked").exists()
    assert first.stdout == ""


def test_the_timer_closes_who_is_missing_twice_running(site: Site) -> None:
    site.write("associations", "vision|lina||", "vision|milo||", "vision|gone||")
    first = site.timed("vision:vision:")
    assert first.returncode == 0
    assert "gone is missing from the groups of account vision: closed at the next run" in (
        first.stdout
    )
    assert site.closed() == []
    # Listed again in between: it starts over.
    site.write("sss.group", "vision:*:5000:lina,milo,gone")
    assert site.timed("vision:vision:").stdout == ""
    site.write("sss.group", "vision:*:5000:lina,milo")
    assert "gone is missing" in site.timed("vision:vision:").stdout
    assert site.closed() == []
    # A run in which the group could not be read does not count.
    assert site.timed("visoin:vision:").returncode == 1
    assert "gone is missing" in site.timed("vision:vision:").stdout
    assert site.closed() == []
    assert site.timed("vision:vision:").stdout == "close gone vision\n"
    assert site.closed() == ["gone"]


@pytest.mark.parametrize(
    ("leave", "stay", "closed"), [(3, 0, 3), (4, 11, 0), (4, 12, 4), (5, 14, 0), (5, 15, 5)]
)
def test_the_timer_closes_no_large_part_of_an_account(
    site: Site, leave: int, stay: int, closed: int
) -> None:
    left, rest = [f"l{i}" for i in range(leave)], [f"s{i}" for i in range(stay)]
    people = enumerate((*left, *rest), 7000)
    site.write("sss.passwd", *(f"{n}:*:{i}:5000::/h/{n}:/bin/sh" for i, n in people))
    site.write("sss.group", f"vision:*:5000:{','.join(rest)}")
    site.write("associations", *(f"vision|{n}||" for n in (*left, *rest)))
    first, second = site.timed("vision:vision:"), site.timed("vision:vision:")
    assert site.closed() == left[:closed]
    if not closed:
        for run in (first, second):
            assert run.returncode == 1
            assert run.stderr == (
                f"{leave} of {leave + stay} people are missing from the groups of account vision "
                "at once, so none of them is closed: look at what the directory answers (getent "
                "group); if they have left, corral up closes them\n"
            )
    # A person who has seen the plan closes them.
    resource = GroupAccounts("lab", ("vision:vision:",), ())
    text = site.run(resource.probe()).stdout.strip()
    change = resource.diff(Seen(0, text), HERE_CONTEXT)
    assert change is not None
    if leave > 3:
        assert change.summary == (
            f"{leave} of {leave + stay} people left the groups of account vision: no new jobs in it"
        )
    (site.folder / "calls").unlink(missing_ok=True)
    assert site.run(change.script).returncode == 0
    assert site.closed() == left


@pytest.mark.parametrize(("leave", "stay", "closed"), [(3, 0, 0), (1, 2, 0), (1, 3, 6)])
def test_the_timer_closes_no_large_part_of_all_accounts_together(
    site: Site, leave: int, stay: int, closed: int
) -> None:
    accounts = [f"a{i}" for i in range(6)]
    left = [f"{a}-l{i}" for a in accounts for i in range(leave)]
    rest = {a: [f"{a}-s{i}" for i in range(stay)] for a in accounts}
    people = {**{n: n[:2] for n in left}, **{n: a for a in accounts for n in rest[a]}}
    site.write(
        "sss.passwd", *(f"{n}:*:{i}:5000::/h/{n}:/bin/sh" for i, n in enumerate(people, 7000))
    )
    site.write("sss.group", *(f"{a}:*:5000:{','.join(rest[a])}" for a in accounts))
    site.write("associations", *(f"{account}|{name}||" for name, account in people.items()))
    groups = [f"{a}:{a}:" for a in accounts]
    site.timed(*groups)
    second = site.timed(*groups)
    assert site.closed() == left[:closed]
    assert second.stderr == (
        ""
        if closed
        else (
            f"{len(left)} of {len(people)} members of all accounts are missing from their groups "
            "at once, so none of them is closed: look at what the directory answers (getent "
            "group); if they have left, corral up closes them\n"
        )
    )


def test_corral_up_closes_nobody_whom_the_plan_did_not_show(site: Site) -> None:
    site.write("associations", "vision|lina||", "vision|milo||")
    resource = GroupAccounts("lab", ("vision:vision:",), ())
    site.write("sss.group", "vision:*:5000:lina")
    change = resource.diff(Seen(0, site.run(resource.probe()).stdout.strip()), HERE_CONTEXT)
    assert change is not None
    assert change.summary == "milo left the group of account vision: no new jobs in it"
    site.write("sss.group", "vision:*:5000:")
    assert site.run(change.script).returncode == 0
    assert site.closed() == ["milo"]


def test_a_name_or_number_of_this_machine_is_named(site: Site) -> None:
    site.write("sss.group", "vision:*:5000:otto,ada,Bad Name")
    problems = site.pending("vision:vision:")
    assert problems[0] == (
        "problem uid 2001 of otto in the directory is ada's on this machine: give one of them "
        "another number"
    )
    assert problems[1] == (
        "problem ada, a member of vision, has the name of a user of this machine (2001): take one "
        "of them out"
    )
    assert all("has a name that Slurm cannot hold" in line for line in problems[2:])
    assert len(problems) == 4


def test_a_slurmdbd_that_is_silent_is_a_problem(site: Site) -> None:
    (site.folder / "bin/sacctmgr").write_text("#!/bin/sh\nexit 1\n")
    assert site.pending("vision:vision:") == ["problem slurmdbd gives no answer"]


def test_what_can_be_done_is_done_before_it_fails_with_the_problem(site: Site) -> None:
    site.write("sss.group", "vision:*:5000:otto,lina")
    done = site.run(call(PROGRAM, "group_accounts", "", "lab", "vision:vision:high"))
    assert done.returncode == 1
    assert "uid 2001 of otto" in done.stderr
    calls = (site.folder / "calls").read_text().splitlines()
    assert calls == [
        "-iQ add user lina account=vision cluster=lab DefaultAccount=vision",
        "-iQ modify user where name=lina account=vision cluster=lab set qos+=high DefaultQOS=high",
    ]
    site.write("sss.group", "vision:*:5000:lina")
    assert site.run(call(PROGRAM, "group_accounts", "", "lab", "vision:vision:")).returncode == 0


def test_accounts_are_due_when_the_directory_or_accounts_change() -> None:
    resource = GroupAccounts("lab", ("vision:vision:",), ("service:sssd",))
    assert resource.diff(Seen(0, ""), HERE_CONTEXT) is None
    change = resource.diff(Seen(0, "add lina vision - first\nproblem x y"), HERE_CONTEXT)
    assert change is not None
    assert change.summary == "add lina to account vision; x y"
    ssd = KeysFromDirectory(on=True).diff(Seen(0, "off"), HERE_CONTEXT)
    assert ssd is not None
    coming = resource.diff(Seen(0, ""), Context("n", {"service:sssd": ssd}))
    assert coming is not None
    assert coming.summary == "accounts for members of vision"


def test_who_left_is_first_in_the_plan_and_many_are_counted() -> None:
    resource = GroupAccounts("lab", ("vision:vision:",), ())
    adds = [f"add n{i} vision - first" for i in range(4)]

    def summary(*closes: str) -> str:
        change = resource.diff(Seen(0, "\n".join((*adds, *closes))), HERE_CONTEXT)
        assert change is not None
        return change.summary

    gone = "left the group of account"
    assert summary(*(f"close l{i} vision 2 2" for i in range(2))) == (
        f"l0 {gone} vision: no new jobs in it; l1 {gone} vision: no new jobs in it; "
        "add n0 to account vision and 3 more"
    )
    assert summary(*(f"close l{i} vision 1 1" for i in range(4))).startswith(
        "4 of 5 people left the groups of account vision: no new jobs in it; add n0 to"
    )
    assert summary(*(f"close l{i} a{i % 6} 0 0" for i in range(18))) == (
        f"18 members left the groups of 6 accounts; l0 {gone} a0: no new jobs in it; "
        f"l1 {gone} a1: no new jobs in it and 20 more"
    )


def test_the_password_goes_by_stdin_and_another_one_is_seen(site: Site) -> None:
    mark, conf, file = (site.folder / name for name in ("mark", "sssd.conf", "password"))
    receive = call(PROGRAM, "password_receive", mark, "f1", "corral", conf, file)
    probe = call(PROGRAM, "password_probe", mark, conf, file)
    assert site.run(probe).stdout == "absent\n"
    assert site.run(receive, b"6\ns3cre%\nnot this").returncode == 0
    assert file.read_text() == "s3cre%"
    assert conf.read_text().splitlines()[1:] == [
        "[domain/corral]",
        "ldap_default_authtok = s3cre%",
    ]
    assert {f.stat().st_mode & 0o777 for f in (mark, conf, file)} == {0o600}
    mine = "f1\n" if os.geteuid() == 0 else "changed\n"  # root alone may own it
    assert site.run(probe).stdout == mine
    conf.chmod(0o640)
    assert site.run(probe).stdout == mine
    file.chmod(0o644)
    assert site.run(probe).stdout == "changed\n"
    file.chmod(0o600)
    file.write_text("other")
    assert site.run(probe).stdout == "changed\n"
    empty = site.run(receive, b"1\n\n")
    assert empty.returncode != 0
    assert "the password file of the directory is empty" in empty.stderr


def test_a_plan_has_a_fingerprint_and_the_path_alone() -> None:
    resource = DirectoryPassword(DirectoryFiles("", "/keys/ldap", "f1"))
    assert resource.diff(Seen(0, "f1"), HERE_CONTEXT) is None
    change = resource.diff(Seen(0, "changed"), HERE_CONTEXT)
    assert change is not None
    (secret,) = change.secrets
    assert (secret.node, secret.path) == (HERE, "/keys/ldap")


def test_sssd_may_let_roots_group_read_its_settings() -> None:
    file = RootFile(CONF, "a\n", mode="600")
    assert file.diff(Seen(0, f"{file.digest} 600 root:root"), HERE_CONTEXT) is None
    assert file.diff(Seen(0, f"{file.digest} 640 root:root"), HERE_CONTEXT) is None
    assert file.diff(Seen(0, f"{file.digest} 644 root:root"), HERE_CONTEXT) is not None
    assert file.diff(Seen(0, f"{file.digest} 640 root:sssd"), HERE_CONTEXT) is not None


def test_settings_of_somebody_elses_sssd_are_refused() -> None:
    assert OwnSssd().diff(Seen(0, ""), HERE_CONTEXT) is None
    change = OwnSssd().diff(Seen(0, "there"), HERE_CONTEXT)
    assert change is not None
    assert "move it away, or leave directory out" in change.refuses


@pytest.mark.parametrize("on", [True, False])
def test_homes_and_keys_are_as_declared(on: bool) -> None:
    word, other = ("on", "off") if on else ("off", "on")
    assert HomesAtLogin(on).diff(Seen(0, word), HERE_CONTEXT) is None
    assert HomesAtLogin(on).diff(Seen(0, other), HERE_CONTEXT) is not None
    assert KeysFromDirectory(on).diff(Seen(0, word), HERE_CONTEXT) is None
    assert KeysFromDirectory(on).diff(Seen(0, other), HERE_CONTEXT) is not None


SSHD = """#!/bin/sh
# sshd -T: of the lines of its config the first one counts; -t.
[ "$1" = -T ] || exit 0
cat "$SITE/sshd" "$SITE/keys.conf" 2>/dev/null | awk '
  tolower($1) == "authorizedkeyscommand" && !found { $1 = tolower($1); print; found = 1 }
  END { if (!found) print "authorizedkeyscommand none" }'
"""


def test_another_command_for_keys_is_refused_and_never_replaced(site: Site) -> None:
    for name, text in (("sshd", SSHD), ("systemctl", "#!/bin/sh\n"), ("chown", "#!/bin/sh\n")):
        (site.folder / "bin" / name).write_text(text)
        (site.folder / "bin" / name).chmod(0o755)
    file, text = site.folder / "keys.conf", "AuthorizedKeysCommand /ours %u\n"
    probe = call(PROGRAM, "keys_probe", file, text.strip(), "/ours %u")
    put = call(PROGRAM, "keys_on", file, text, "/ours %u")
    assert site.run(probe).stdout == "off\n"
    assert site.run(put).returncode == 0
    assert site.run(probe).stdout == "on\n"
    # One that comes before Corral's file, whether it was there first or came later.
    site.write("sshd", "AuthorizedKeysCommand /opt/cloud/keys %u")
    assert site.run(probe).stdout.startswith("on\n/opt/cloud/keys %u")
    file.unlink()
    seen = site.run(probe).stdout
    assert seen.startswith("off\n/opt/cloud/keys %u")
    assert site.run(call(PROGRAM, "keys_probe", file, text.strip(), "")).stdout == "off\n"
    failed = site.run(put)
    assert failed.returncode == 1
    assert "sshd does not ask for keys by /ours %u: an earlier line of its config wins" in (
        failed.stderr
    )
    assert not file.exists()
    for state in ("on", "off"):
        change = KeysFromDirectory(on=True).diff(
            Seen(0, f"{state}\n/opt/cloud/keys %u /etc/ssh/sshd_config"), HERE_CONTEXT
        )
        assert change is not None
        assert change.refuses.startswith(
            "sshd asks /opt/cloud/keys %u /etc/ssh/sshd_config for public keys, and can ask by"
        )


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (0, "ldap://127.0.0.1:1 ok"),
        (49, "ldap://127.0.0.1:1 refused refuses the password: correct directory.bind_dn"),
        (32, "ldap://127.0.0.1:1 baseless has no entry dc=x that it shows: correct directory.base"),
        (255, "ldap://127.0.0.1:1 silent does not answer: look at the server"),
    ],
)
def test_what_a_server_answers_is_a_word_and_a_sentence(site: Site, status: int, line: str) -> None:
    program = site.folder / "bin/ldapsearch"
    program.write_text(f'#!/bin/sh\necho "$*" >"$SITE/asked"\nexit {status}\n')
    program.chmod(0o755)
    words = ("dc=x", "cn=r", "/etc/p", "/etc/ca", "on", "ldap://127.0.0.1:1")
    assert site.run(call(PROGRAM, "directory_answers", *words)).stdout.startswith(line)
    asked = (site.folder / "asked").read_text()
    assert "-ZZ" in asked
    assert "-y /etc/p" in asked
    gate = site.run(call(PROGRAM, "directory_gate", *words))
    assert (gate.returncode == 0) == (status == 0)
    if status:
        assert gate.stderr.startswith(line.replace(f" {line.split()[1]} ", " ", 1))


def installed(site: Site, name: str) -> Path:
    file = site.folder / name
    file.write_text(agents.program(name))
    return file


def before_sssd(site: Site) -> tuple[subprocess.CompletedProcess[str], Path]:
    """What the program that runs before SSSD did, and the file that it writes."""
    section = Directory(
        uris=("ldaps://a",),
        base="ou=lab,dc=example,dc=org",
        groups=(DirectoryGroup(name="vision", account="vision"),),
    )
    settings, file = site.folder / "50-corral.conf", site.folder / "20-corral-local.conf"
    settings.write_text(sssd_conf(section))
    settings.chmod(0o600)
    program = installed(site, "directory-local.sh")
    return site.run(sh("sh {p} {s} {f}", p=program, s=settings, f=file)), file


def test_sssd_starts_with_names_and_numbers_of_this_machine_left_out(site: Site) -> None:
    site.write("files.group", "root:x:0:", "sudo:x:27:ada", "people:x:2001:")
    ended, file = before_sssd(site)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert file.read_text().splitlines()[1:] == [
        "[nss]",
        "filter_users = root, ada",
        "filter_groups = root, sudo, people",
        "",
        "[domain/corral]",
        "ldap_user_search_base = ou=lab,dc=example,dc=org?subtree?(!(|(uidNumber=0)(uidNumber=2001)"
        "(uid=root)(uid=ada)(gidNumber=0)(gidNumber=27)(gidNumber=2001)))",
        "ldap_group_search_base = ou=lab,dc=example,dc=org?subtree?(!(|(gidNumber=0)(gidNumber=27)"
        "(gidNumber=2001)(cn=root)(cn=sudo)(cn=people)))",
    ]
    assert file.stat().st_mode & 0o777 == 0o600
    site.write("files.passwd", "root:x:0:0::/root:/bin/sh", "new:x:2002:2002::/home/new:/bin/sh")
    assert before_sssd(site)[0].returncode == 0
    assert "filter_users = root, new\n" in file.read_text()
    assert not list(site.folder.glob(".corral-local*"))


@pytest.mark.parametrize(
    ("database", "lines", "why"),
    [
        ("passwd", ("ada:x:2001:2001::/:/bin/sh",), "getent lists no root"),
        ("passwd", (), "getent does not list the users"),
        ("group", (), "getent does not list the groups"),
        ("passwd", ("root:x:0:0::/:/bin/sh", "a)(b:x:1:1::/:/bin/sh"), "no list with a)(b"),
        ("passwd", ("root:x:0:0::/:/bin/sh", "a,b:x:1:1::/:/bin/sh"), "no list with a,b"),
        ("group", ("root:x:0:", "two words:x:9:"), "no list with two words"),
        ("group", ("root:x:0:", "odd:x:*:"), "no list with *"),
    ],
)
def test_sssd_does_not_start_without_the_complete_list(
    site: Site, database: str, lines: tuple[str, ...], why: str
) -> None:
    site.write("files.group", "root:x:0:")
    assert before_sssd(site)[0].returncode == 0
    site.write(f"files.{database}", *lines)
    ended, file = before_sssd(site)
    assert ended.returncode != 0
    assert why in ended.stderr
    assert "filter_users = root, ada\n" in file.read_text()
    assert not list(site.folder.glob(".corral-local*"))


def test_keys_are_shown_for_people_of_the_directory_alone(site: Site) -> None:
    shown = site.folder / "bin/sss_ssh_authorizedkeys"
    shown.write_text('#!/bin/sh\necho "key of $1"\n')
    shown.chmod(0o755)
    long = "l" * 32
    site.write(
        "sss.passwd", *(f"{n}:*:{i}:5000::/:/bin/sh" for n, i in [*PEOPLE.items(), (long, 9)])
    )
    program = installed(site, "directory-keys.sh")

    def keys(name: str) -> str:
        ended = site.run(sh("sh {p} {n}", p=program, n=name))
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout

    assert keys("lina") == "key of lina\n"
    assert keys(long) == f"key of {long}\n"
    # A name of this machine, a number of it, nobody, and names that no user has.
    for name in ("ada", "root", "otto", "nobody-here", "", "5001", "-x", "Lina", "a b", f"{long}l"):
        assert keys(name) == "", name
    # Where the machine's own list cannot be read nobody gets in by a key.
    (site.folder / "files.passwd").unlink()
    (site.folder / "bin/getent").write_text(
        '#!/bin/sh\n[ "$2" = sss ] || exit 1\necho "$4:*:7:7::/:/bin/sh"\n'
    )
    assert keys("lina") == ""


def test_a_name_of_a_group_is_no_pattern(site: Site) -> None:
    site.write("sss.group", "vision:*:5000:*")
    script = sh(
        "cd {folder}\n{call}",
        folder=site.folder,
        call=call(PROGRAM, "group_accounts_pending", "lab", "vision:vision:"),
    )
    (problem,) = site.run(script).stdout.splitlines()
    assert problem.startswith("problem *, a member of vision, has a name that Slurm cannot hold")


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="makes folders of others")


@ROOT
def test_the_folder_of_homes_is_made_and_never_taken_from_somebody_else(site: Site) -> None:
    top = site.folder / "shared"
    top.mkdir()
    top.chmod(0o1777)
    homes = HomesFolder(str(top / "home"))
    assert site.run(homes.probe()).stdout == "absent\n"
    change = homes.diff(Seen(0, "absent"), HERE_CONTEXT)
    assert change is not None
    assert site.run(change.script).returncode == 0
    assert site.run(homes.probe()).stdout == "root\n"
    assert homes.diff(Seen(0, "root"), HERE_CONTEXT) is None
    # Somebody was faster than the change.
    assert site.run(change.script).returncode != 0
    os.chown(top / "home", 5001, 5001)
    seen = site.run(homes.probe()).stdout.strip()
    assert seen.startswith(f"! {top}/home belongs to ")
    refused = homes.diff(Seen(0, seen), HERE_CONTEXT)
    assert refused is not None
    assert f"others could put homes into {top}/home: {top}/home belongs to" in refused.refuses
    os.chown(top / "home", 0, 0)
    (top / "home").chmod(0o1777)
    assert "others may write to it" in site.run(homes.probe()).stdout
    (top / "home").chmod(0o711)
    assert site.run(homes.probe()).stdout == "root\n"
    top.chmod(0o777)
    assert "without the sticky bit" in site.run(homes.probe()).stdout


@pytest.fixture
def shared(site: Site) -> Path:
    """Shared storage as `up` leaves it, on a machine where everything is root's or the person's."""
    stat = """case "$1 $2" in
  "-c %u") case $3 in */lina) echo 5001 ;; */milo) echo 5002 ;; *) echo 0 ;; esac ;;
  "-c %U") echo root ;;
  "-c %A") exec /usr/bin/stat -c %A "$3" ;;
  "-c %u %U %a") echo "0 root $(/usr/bin/stat -c %a -- "$4")" ;;
esac"""
    account = """case "$*" in
  -u) echo 0 ;;
  "-u lina") echo 5001 ;; "-u milo") echo 5002 ;; "-g lina" | "-g milo") echo 5000 ;;
  *) exit 1 ;;
esac"""
    programs = {"stat": stat, "id": account, "chown": 'echo "$*" >>"$SITE/chown"'}
    for name, text in programs.items():
        (site.folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (site.folder / "bin" / name).chmod(0o755)
    folder = site.folder / "shared"
    (folder / "corral").mkdir(parents=True)
    return folder


def test_people_of_the_groups_have_folders_of_jobs(site: Site, shared: Path) -> None:
    """Without them corral run, notebook, submit(fn) and data refuse who is not in the file."""
    folders = MemberFolders(str(shared), ("vision:vision:", "speech:speech:"), ("service:sssd",))
    seen = site.run(folders.probe())
    assert seen.stdout.split() == ["lina", "milo"]
    change = folders.diff(Seen(0, seen.stdout), HERE_CONTEXT)
    assert change is not None
    assert change.summary == f"folders of jobs for lina, milo in {shared}"
    done = site.run(change.script)
    assert done.returncode == 0, done.stderr
    mine = [shared / "corral" / kind / "lina" for kind in ("jobs", "envs", "data")]
    assert [path.stat().st_mode & 0o777 for path in mine] == [0o700] * 3
    assert f"-h lina:5000 {mine[0]}" in (site.folder / "chown").read_text()
    assert site.run(folders.probe()).stdout == ""
    assert folders.diff(Seen(0, ""), HERE_CONTEXT) is None


def test_folders_are_made_for_the_others_where_one_is_in_the_way(site: Site, shared: Path) -> None:
    (shared / "corral/jobs").mkdir(mode=0o755)
    (shared / "corral/jobs/lina").symlink_to("/etc")
    folders = MemberFolders(str(shared), ("vision:vision:",), ())
    done = site.run(call(PROGRAM, "members_folders", *folders.words))
    assert done.returncode == 1
    assert f"{shared}/corral/jobs/lina belongs to" in done.stderr
    assert (shared / "corral/data/milo").is_dir()


def test_no_folder_is_made_below_a_mount_point_without_its_mount(site: Site, shared: Path) -> None:
    (shared / "corral").rmdir()
    folders = MemberFolders(str(shared), ("vision:vision:",), ())
    assert site.run(folders.probe()).stdout == ""
    assert site.run(call(PROGRAM, "members_folders", *folders.words)).returncode == 0
    assert not list(shared.iterdir())
