"""The directory of people on a machine: SSSD's settings, its password, homes, accounts. Pure.

A bind password is chosen by people, so its plain digest could be guessed: a plan knows it by a
fingerprint that costs 32 MiB and some 0.1 s a guess (scrypt). On the machine the fingerprint is
next to the password, for root alone, with digests of the files that were written with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call, sh
from corral.spec.sections.directory import Directory
from corral.state.base import HERE, Change, Context, SecretRef, Seen, Standalone
from corral.state.files import Directory as Folder
from corral.state.files import File
from corral.state.storage.job_folders import KINDS, TOP

PROGRAM: Final = "state/directory.sh"
DOMAIN: Final = "corral"
"""SSSD's name of the directory."""
CONF: Final = "/etc/sssd/conf.d/50-corral.conf"
PASSWORD_CONF: Final = "/etc/sssd/conf.d/60-corral-password.conf"  # noqa: S105  # a path
PASSWORD: Final = "/etc/corral/directory.password"  # noqa: S105  # a path
KEYS_CONF: Final = "/etc/ssh/sshd_config.d/10-corral-directory.conf"
FINGERPRINT: Final = "/etc/corral/directory.fingerprint"
CA: Final = "/etc/corral/directory-ca.pem"
PROFILE: Final = "corral-homes"
PROFILE_FILE: Final = f"/usr/share/pam-configs/{PROFILE}"
PROFILE_LINE: Final = "pam_mkhomedir.so umask=0077"
LOCAL: Final = "/usr/local/sbin/corral-directory-local"
LOCAL_CONF: Final = "/etc/sssd/conf.d/20-corral-local.conf"
KEYS: Final = "/usr/local/sbin/corral-directory-keys"
GROUP_ACCOUNTS: Final = "group-accounts"
MEMBER_FOLDERS: Final = "member-folders"
_SHOWN: Final = 3
"""Of what is due for members a plan's line has so many."""
_ASKS: Final = f"{KEYS} %u"
_KEYS: Final = f"""\
# Written by Corral: public keys of the directory's people (sshPublicKey).
AuthorizedKeysCommand {_ASKS}
AuthorizedKeysCommandUser nobody
"""


@dataclass(frozen=True, slots=True)
class DirectoryFiles:
    """What this machine has for the directory.

    Attributes:
        ca: the authority's certificate as text, "" for none.
        password: path of the password's file, "" for none.
        fingerprint: of the password, "" for none.
    """

    ca: str = ""
    password: str = ""
    fingerprint: str = ""


def words(directory: Directory) -> tuple[str, ...]:
    """How ``directory_answers`` is asked: all but the function's name."""
    bound = directory.bind_dn or ""
    return (
        directory.base,
        bound,
        PASSWORD if bound else "",
        CA if directory.ca else "",
        directory.tls,
        *directory.uris,
    )


def answers(directory: Directory) -> Script:
    """Read-only: what each server answers and whether SSSD knows each group."""
    groups = [group.name for group in directory.groups]
    return sh(
        "{servers}\n{groups}",
        servers=call(PROGRAM, "directory_answers", *words(directory)),
        groups=call(PROGRAM, "directory_known", *groups),
    )


def gate(directory: Directory) -> Script:
    """True where a server answers to the node's own name and password."""
    return call(PROGRAM, "directory_gate", *words(directory))


class RootFile(File):
    """A file that root alone reads. SSSD from 2.10 on lets root's group read it at each start."""

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """As a file of mode 600."""
        first, line_end, rest = seen.text.partition("\n")
        digest, _, attributes = first.partition(" ")
        if attributes == "640 root:root":
            first = f"{digest} 600 root:root"
        return super().diff(Seen(seen.status, f"{first}{line_end}{rest}"), context)


@dataclass(frozen=True, slots=True)
class DirectoryPassword(Standalone):
    """The password that the directory is read with.

    Attributes:
        files: where it is on this machine, and its fingerprint.
    """

    files: DirectoryFiles

    @property
    def id(self) -> str:
        return f"secret:{self.path}"

    @property
    def path(self) -> str:
        """Where a node has it."""
        return PASSWORD

    def probe(self) -> Script:
        """The fingerprint, ``absent`` or ``changed``."""
        return call(PROGRAM, "password_probe", FINGERPRINT, PASSWORD_CONF, PASSWORD)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Write it, or another one."""
        if seen.text == self.files.fingerprint:
            return None
        return Change(
            self.id,
            f"put the directory's password into {PASSWORD}, for root alone",
            "" if seen.text == "absent" else "another password",
            "the password",
            call(
                PROGRAM,
                "password_receive",
                FINGERPRINT,
                self.files.fingerprint,
                DOMAIN,
                PASSWORD_CONF,
                PASSWORD,
            ),
            secrets=(SecretRef("the directory's password", HERE, self.files.password),),
            keeps=(f"file:{PASSWORD_CONF}", f"file:{FINGERPRINT}"),
        )


@dataclass(frozen=True, slots=True)
class OwnSssd(Standalone):
    """No settings of somebody else's SSSD, with which Corral's would mix."""

    @property
    def id(self) -> str:
        return "own-sssd"

    def probe(self) -> Script:
        """``there`` where SSSD has settings already."""
        return sh("[ ! -e /etc/sssd/sssd.conf ] || echo there")

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """SSSD would merge them with Corral's, so a person decides."""
        if seen.text != "there":
            return None
        refusal = (
            "/etc/sssd/sssd.conf is there, which Corral did not write: move it away, or leave "
            "directory out of the file and keep the machine's own"
        )
        return Change(
            self.id, "SSSD has its own settings", "there", "", sh("exit 1"), refuses=refusal
        )


class HomesFolder(Folder):
    """The folder of homes: root's, with nobody else who could put a home or another folder there.

    One that is there is never taken over from somebody else.
    """

    def probe(self) -> Script:
        """``absent``, ``root``, or ``!`` and who could replace it."""
        return call(PROGRAM, "homes_probe", self.path)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make it, or leave it to a person."""
        if seen.text == "absent":
            script = call(PROGRAM, "homes_make", self.path)
            return Change(self.id, f"folder of homes {self.path}", "", "root", script)
        if seen.text == "root":
            return None
        why = seen.text.removeprefix("! ")
        refusal = (
            f"others could put homes into {self.path}: {why}; look at what is in it and make that "
            "folder root's, closed to others (chown root:root, chmod 755), or name another one in "
            "directory.homes"
        )
        return Change(
            self.id, f"{self.path} is open to others", why, "", sh("exit 1"), refuses=refusal
        )


@dataclass(frozen=True, slots=True)
class HomesAtLogin(Standalone):
    """PAM makes a home at a person's first login, by a profile of Corral's.

    Attributes:
        on: False: the profile is taken out, where it is.
    """

    on: bool

    @property
    def id(self) -> str:
        return f"pam-profile:{PROFILE}"

    @property
    def watches(self) -> tuple[str, ...]:
        """The profile."""
        return (f"file:{PROFILE_FILE}",)

    def probe(self) -> Script:
        """``on`` or ``off``."""
        return call(PROGRAM, "pam_profile_probe", PROFILE_LINE)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Let pam-auth-update write it, or take it out."""
        if (seen.text == "on") == self.on and not (self.on and self.watches[0] in context.changed):
            return None
        script = call(PROGRAM, "pam_profile_off", PROFILE, PROFILE_FILE)
        if self.on:
            script = call(PROGRAM, "pam_profile_on", PROFILE, PROFILE_LINE)
        return Change(
            self.id,
            "homes are made at the first login" if self.on else "no homes are made at logins",
            seen.text,
            "on" if self.on else "off",
            script,
            keeps=("file:/etc/pam.d/common-session",),
        )


@dataclass(frozen=True, slots=True)
class KeysFromDirectory(Standalone):
    """sshd lets people in by the public keys that the directory has (sshPublicKey).

    Attributes:
        on: False: it asks no longer.
    """

    on: bool

    @property
    def id(self) -> str:
        return f"file:{KEYS_CONF}"

    def probe(self) -> Script:
        """``on``, ``other`` or ``off``; and another command that sshd asks, with its files."""
        asks = _ASKS if self.on else ""
        return call(PROGRAM, "keys_probe", KEYS_CONF, _KEYS.rstrip(), asks)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Write sshd's file, or remove it; sshd reads its settings again.

        Another command for keys is a person's to remove: sshd asks by one alone.
        """
        now, _, foreign = seen.text.partition("\n")
        if foreign:
            refusal = (
                f"sshd asks {foreign} for public keys, and can ask by one command only: remove "
                "AuthorizedKeysCommand from its config, or leave directory out of the file"
            )
            return Change(
                self.id,
                "sshd asks somebody else for keys",
                foreign,
                "",
                sh("exit 1"),
                refuses=refusal,
            )
        if now == ("on" if self.on else "off"):
            return None
        what = "takes" if self.on else "takes no more"
        return Change(
            self.id,
            f"sshd {what} public keys of the directory",
            now,
            "on" if self.on else "off",
            call(PROGRAM, "keys_on", KEYS_CONF, _KEYS, _ASKS)
            if self.on
            else call(PROGRAM, "keys_off", KEYS_CONF),
        )


@dataclass(frozen=True, slots=True)
class GroupAccounts:
    """Members of the directory's groups have their accounts in Slurm.

    The one who may add and close them is the program on the controller, which asks SSSD there.

    Attributes:
        cluster: Slurm's ClusterName.
        groups: ``GROUP:ACCOUNT:QOS`` each.
        after: ids of resources whose change may change what the directory answers.
    """

    cluster: str
    groups: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"group-accounts:{self.cluster}"

    @property
    def watches(self) -> tuple[str, ...]:
        """What comes before it can ask."""
        return self.after

    def probe(self) -> Script:
        """What is to be done, a line each."""
        return call(PROGRAM, "group_accounts_pending", self.cluster, *self.groups)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Add, close and open accounts; fails with what is wrong once that is done.

        Nobody is closed whom the plan did not show, as the directory has answered so once only.
        """
        lines = [line.split() for line in seen.text.splitlines() if line.strip()]
        coming = any(name in context.changed for name in self.after)
        if not lines and not coming:
            return None
        if coming:
            what = f"accounts for members of {', '.join(g.split(':')[0] for g in self.groups)}"
        else:
            texts = _in_words(lines)
            what = "; ".join(texts[:_SHOWN])
            what += f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        missing = [] if coming else [" ".join(line[1:3]) for line in lines if line[0] == "close"]
        return Change(
            self.id,
            what,
            "" if coming else seen.text,
            "members have their accounts",
            call(PROGRAM, "group_accounts", "\n".join(missing), self.cluster, *self.groups),
        )


@dataclass(frozen=True, slots=True)
class MemberFolders:
    """Members of the directory's groups have folders for the files of their jobs.

    Their names are the directory's, so the node that keeps the storage asks SSSD for them.

    Attributes:
        path: the shared folder on that node.
        groups: ``GROUP:ACCOUNT:QOS`` each.
        after: ids of resources whose change may change what there is to make.
    """

    path: str
    groups: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"member-folders:{self.path}"

    @property
    def watches(self) -> tuple[str, ...]:
        """What comes before it can ask."""
        return self.after

    @property
    def words(self) -> tuple[str, ...]:
        """How its functions are called, and its program."""
        return (self.path, TOP, " ".join(KINDS), *self.groups)

    def probe(self) -> Script:
        """Who has none, a line each."""
        return call(PROGRAM, "members_without", *self.words)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Make what is missing."""
        people = seen.text.split()
        if not people and not any(name in context.changed for name in self.after):
            return None
        names = ", ".join(people[:_SHOWN])
        more = len(people) - _SHOWN
        who = f"{names} and {more} more" if more > 0 else names
        return Change(
            self.id,
            f"folders of jobs for {who or 'members of the groups'} in {self.path}",
            "",
            "members have their folders",
            call(PROGRAM, "members_folders", *self.words),
        )


def _in_words(lines: list[list[str]]) -> list[str]:
    """Lines of ``group_accounts_pending`` for people, those who left first.

    Many who left an account are one text; where that still makes more than a plan's line has, their
    number is the first one.
    """
    leaving = Counter(line[2] for line in lines if line[0] == "close")
    texts: dict[str, None] = {}
    if sum(count if count <= _SHOWN else 1 for count in leaving.values()) > _SHOWN:
        text = f"{leaving.total()} members left the groups of {len(leaving)} accounts"
        texts[text] = None
    for line in sorted(lines, key=lambda line: line[0] != "close"):
        match line:
            case ["add", user, account, *_]:
                text = f"add {user} to account {account}"
            case ["close", _, account, staying, *_] if leaving[account] > _SHOWN:
                members = leaving[account] + int(staying)
                text = (
                    f"{leaving[account]} of {members} people left the groups of account {account}: "
                    "no new jobs in it"
                )
            case ["close", user, account, *_]:
                text = f"{user} left the group of account {account}: no new jobs in it"
            case ["open", user, account, *_]:
                text = f"{user} may submit in account {account} again"
            case ["qos", user, account, qos, *_]:
                text = f"default QOS of {user} in account {account}: {qos}"
            case _:
                text = " ".join(line[1:])
        texts[text] = None
    return list(texts)
