"""Rules about people: homes, keys, their directory, Slurm accounts, QOS, limits and logins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from corral.errors import CorralError
from corral.spec.explain import near
from corral.spec.findings import Level, one_line
from corral.spec.models import Partition
from corral.spec.nodes import login_nodes_of
from corral.spec.rules.shared_resources import system
from corral.spec.sections.directory import Directory
from corral.spec.sections.people import Limits
from corral.spec.slurm.hostlist import expand
from corral.spec.tree import Path
from corral.spec.view import Problem, Rule, View, repeated

OWN_ACCOUNT: Final = "corral"
"""The account of users that declare none; it is always there."""

FIRST_QOS: Final = "normal"
"""The QOS that slurmdbd makes automatically (accounting.html)."""


def accounts_duplicate(view: View) -> Iterator[Problem]:
    """Two accounts of one name."""
    yield from twice([a.name for a in view.spec.accounts], "accounts", "account")


def account_reserved(view: View) -> Iterator[Problem]:
    """The top of Slurm's tree is called root."""
    for i, account in enumerate(view.spec.accounts):
        if account.name == "root":
            hint = "leave parent out: an account is then below root"
            yield Problem(("accounts", i, "name"), "root is Slurm's own account", hint)


def account_parent(view: View) -> Iterator[Problem]:
    """A parent that is not declared."""
    names = [a.name for a in view.spec.accounts]
    for i, account in enumerate(view.spec.accounts):
        if account.parent is not None and account.parent not in names:
            path: Path = ("accounts", i, "parent")
            yield undeclared(path, "account", account.parent, names)


def account_loop(view: View) -> Iterator[Problem]:
    """An account that is its own ancestor."""
    parents = {a.name: a.parent for a in view.spec.accounts}
    for i, account in enumerate(view.spec.accounts):
        above, seen = account.parent, {account.name}
        while above is not None and above not in seen:
            seen.add(above)
            above = parents.get(above)
        if above == account.name:
            message = f"{account.name} is its own ancestor"
            yield Problem(("accounts", i, "parent"), message, "leave one parent of the circle out")


def user_account(view: View) -> Iterator[Problem]:
    """A user in an account that is not declared."""
    names = [*(a.name for a in view.spec.accounts), OWN_ACCOUNT]
    for i, user in enumerate(view.spec.users):
        if user.account is not None and user.account not in names:
            yield undeclared(("users", i, "account"), "account", user.account, names)


def qos_duplicate(view: View) -> Iterator[Problem]:
    """Two QOS of one name."""
    yield from twice([q.name for q in view.spec.qos], "qos", "QOS")


def qos_unknown(view: View) -> Iterator[Problem]:
    """A QOS that is not declared."""
    names = [*(q.name for q in view.spec.qos), FIRST_QOS]
    asked: list[tuple[Path, str]] = []
    for i, qos in enumerate(view.spec.qos):
        asked += [(("qos", i, "preempts", j), name) for j, name in enumerate(qos.preempts)]
    for i, account in enumerate(view.spec.accounts):
        asked += [(("accounts", i, "qos", j), name) for j, name in enumerate(account.qos)]
    for i, user in enumerate(view.spec.users):
        asked += [(("users", i, "qos"), user.qos)] if user.qos is not None else []
    for path, name in asked:
        if name not in names:
            yield undeclared(path, "QOS", name, names)


def without_accounting(view: View) -> Iterator[Problem]:
    """Accounts and limits live in slurmdbd."""
    spec = view.spec
    if spec.slurm.accounting:
        return
    hint = "write slurm: {accounting: true}, or leave accounts, qos and limits out"
    for name in ("accounts", "qos"):
        if getattr(spec, name):
            yield Problem((name,), f"{name} need slurmdbd, and accounting is off", hint)
    for i, user in enumerate(spec.users):
        if user.limits != Limits() or user.account or user.qos:
            message = "account, qos and limits need slurmdbd, and accounting is off"
            yield Problem(("users", i), message, hint)


def gpu_limit(view: View) -> Iterator[Problem]:
    """Slurm knows gres/gpu only where a node has one."""
    if any(group.group.gpu_kinds for group in view.groups):
        return
    for path, limits in _limits(view):
        if limits.gpus is not None:
            hint = "declare gpu in a group, or remove the limit"
            yield Problem((*path, "gpus"), "a limit on GPUs, and no node declares one", hint)


def home_folder(view: View) -> Iterator[Problem]:
    """A home in a folder of the system."""
    for i, user in enumerate(view.spec.users):
        home = PurePosixPath(user.home or "/home/x")
        if system().has(home):
            message = f"{home} belongs to the system"
            yield Problem(("users", i, "home"), message, f"write /home/{user.name}, for instance")


def home_duplicate(view: View) -> Iterator[Problem]:
    """Two users in one home."""
    owners: dict[str, str] = {}
    for i, user in enumerate(view.spec.users):
        home = user.home or f"/home/{user.name}"
        owner = owners.setdefault(home, user.name)
        if owner != user.name:
            message = f"{home} is the home of {owner} and {user.name}"
            yield Problem(("users", i, "home"), message, "give each their own home")


def key_shared(view: View) -> Iterator[Problem]:
    """One key for two users: one of them is somebody else."""
    owners: dict[str, str] = {}
    for i, user in enumerate(view.spec.users):
        for j, key in enumerate(user.keys):
            body = " ".join(key.split()[:2])
            owner = owners.setdefault(body, user.name)
            if owner != user.name:
                message = f"{user.name} and {owner} have the same key"
                yield Problem(("users", i, "keys", j), message, "give each person their own key")


def login_nodes(view: View) -> Iterator[Problem]:
    """Login nodes that the cluster does not have."""
    login = view.spec.access.login
    if login is None:
        return
    try:
        names = expand(login, strict=True)
    except CorralError as error:
        yield Problem(("access", "login"), error.message, error.hint)
        return
    unknown = [name for name in names if name not in view.names] if view.complete else []
    if unknown:
        yield undeclared(("access", "login"), "node", unknown[0], list(view.names)[:1000])


_DIRECTORY_KINDS: Final = {
    "ipa": "FreeIPA's enrolment of machines is not set up by Corral",
    "ad": "joining machines to Active Directory is not set up by Corral",
}
_DIRECTORY_HINTS: Final = {
    "ipa": "write kind: ldap and group_members: entries; people then log in by LDAP or by key",
    "ad": "leave directory out, join the nodes by hand (realm join), and add Slurm accounts by "
    "sacctmgr",
}


def directory_kind(view: View) -> Iterator[Problem]:
    """A kind that needs more than LDAP."""
    directory = view.spec.directory
    if directory is not None and directory.kind in _DIRECTORY_KINDS:
        yield Problem(
            ("directory", "kind"),
            _DIRECTORY_KINDS[directory.kind],
            _DIRECTORY_HINTS[directory.kind],
        )


def directory_encrypted(view: View) -> Iterator[Problem]:
    """Plain LDAP: everybody on the network could read a password, or answer with their own key."""
    directory = view.spec.directory
    if directory is None or directory.tls == "on":
        return
    plain = next((uri for uri in directory.uris if _plain(uri)), None)
    if plain is not None:
        message = f"anybody on the path to {plain} could answer with a key of theirs and log in"
        if directory.bind_dn is not None:
            message = f"the password of {directory.bind_dn} would cross the network unencrypted"
        hint = "leave tls out (ldap:// then begins TLS), or write ldaps:// alone"
        yield Problem(("directory", "tls"), message, hint)


def _plain(uri: str) -> bool:
    return uri.startswith("ldap://")


def directory_password(view: View) -> Iterator[Problem]:
    """Half of a name and its password."""
    directory = view.spec.directory
    if directory is None or bool(directory.bind_dn) == bool(directory.password_file):
        return
    missing = "password_file" if directory.bind_dn else "bind_dn"
    message = f"bind_dn and password_file belong together, and {missing} is missing"
    yield Problem(("directory",), message, f"add {missing}, or leave both out")


def directory_groups(view: View) -> Iterator[Problem]:
    """Groups of one name, in an account or with a QOS that is not declared."""
    directory = view.spec.directory
    if directory is None:
        return
    accounts = [account.name for account in view.spec.accounts]
    qos = [*(each.name for each in view.spec.qos), FIRST_QOS]
    for problem in twice([group.name for group in directory.groups], "groups", "group"):
        yield Problem(("directory", *problem.path), problem.message, problem.hint)
    for i, group in enumerate(directory.groups):
        place = ("directory", "groups", i)
        if group.account not in accounts:
            yield undeclared((*place, "account"), "account", group.account, accounts)
        if group.qos is not None and group.qos not in qos:
            yield undeclared((*place, "qos"), "QOS", group.qos, qos)


def directory_accounting(view: View) -> Iterator[Problem]:
    """Accounts of members are in slurmdbd."""
    if view.spec.directory is not None and not view.spec.slurm.accounting:
        hint = "write slurm: {accounting: true}"
        message = "members of a group get their account in slurmdbd, and accounting is off"
        yield Problem(("directory", "groups"), message, hint)


def directory_submitted(view: View) -> Iterator[Problem]:
    """QOS with a limit in place of which Slurm does not look at what closes who left a group.

    acct_policy.c compares GrpSubmitJobs of associations only where no QOS of the job, its own or
    its partition's, has a GrpSubmitJobs: with 50 of a QOS a job of a person with 0 ran (24.11.5).
    """
    if view.spec.directory is None:
        return
    usable = _qos_of_groups(view, view.spec.directory)
    for i, qos in enumerate(view.spec.qos):
        if qos.limits.submitted is not None and qos.name in usable:
            message = (
                f"who left the groups of account {usable[qos.name]} could still submit in QOS "
                f"{qos.name}: where a QOS limits submitted jobs, Slurm does not look at what "
                "closes a person (GrpSubmitJobs)"
            )
            hint = "write submitted in per_user of the QOS, or in limits of its accounts, instead"
            yield Problem(("qos", i, "limits", "submitted"), message, hint)


def _qos_of_groups(view: View, directory: Directory) -> dict[str, str]:
    """QOS that jobs in accounts of groups may have, each with one of these accounts."""
    usable = {group.qos: group.account for group in directory.groups if group.qos is not None}
    declared = {account.name: account.qos or (FIRST_QOS,) for account in view.spec.accounts}
    for group in directory.groups:
        names = [*declared.get(group.account, ())]
        names += [p.qos for p in view.spec.partitions if p.qos and _admits(view, p, group.account)]
        usable |= dict.fromkeys(names, group.account)
    return usable


def _admits(view: View, partition: Partition, account: str) -> bool:
    """Whether a partition takes jobs of an account, as far as accounts decide.

    A list of allowed accounts holds for those below them too (slurm.conf(5)).
    """
    if not partition.allow_accounts:
        return account not in partition.deny_accounts
    parents = {each.name: each.parent for each in view.spec.accounts}
    line: list[str] = []
    above: str | None = account
    while above is not None and above not in line:
        line.append(above)
        above = parents.get(above)
    return not {*line}.isdisjoint(partition.allow_accounts)


def directory_homes(view: View) -> Iterator[Problem]:
    """Homes where nobody can make them at a login."""
    directory = view.spec.directory
    if directory is None:
        return
    folder = PurePosixPath(directory.homes)
    place = ("directory", "homes")
    if folder != PurePosixPath("/home") and system().has(folder):
        hint = "write /home, or a folder of storage such as /shared/home"
        yield Problem(place, f"{folder} belongs to the system", hint)
    login = login_nodes_of(view.spec)
    for storage in view.spec.storage:
        inside = folder.is_relative_to(storage.mount)
        if not (inside and storage.kind == "nfs" and storage.root_squash):
            continue
        others = [name for name in login if name != storage.server]
        if others:
            message = (
                f"{others[0]} cannot make homes in {storage.mount}: its root is nobody there "
                "(root_squash)"
            )
            hint = f"name {storage.server} alone in access.login, or write root_squash: false"
            yield Problem(place, message, hint)


def directory_homes_storage(view: View) -> Iterator[Problem]:
    """Homes where others than root may make folders: the first to do so has another's home."""
    directory = view.spec.directory
    if directory is None:
        return
    folder, place = PurePosixPath(directory.homes), ("directory", "homes")
    for storage in view.spec.storage:
        if folder == PurePosixPath(storage.mount):
            message = f"in {folder}, the top of shared storage, all users may make folders"
            yield Problem(place, message, f"write a folder in it, such as {folder}/home")
        elif folder.is_relative_to(storage.mount) and storage.kind == "existing":
            message = f"Corral does not keep {storage.mount} (kind: existing), so not its owners"
            hint = "write /home, or a folder of storage that Corral serves"
            yield Problem(place, message, hint)


def _limits(view: View) -> Iterator[tuple[Path, Limits]]:
    for i, account in enumerate(view.spec.accounts):
        yield ("accounts", i, "limits"), account.limits
    for i, user in enumerate(view.spec.users):
        yield ("users", i, "limits"), user.limits
    for i, qos in enumerate(view.spec.qos):
        yield ("qos", i, "limits"), qos.limits
        yield ("qos", i, "per_user"), qos.per_user


_SECTIONS: Final = {"account": "accounts", "QOS": "qos"}


def undeclared(path: Path, what: str, name: str, known: list[str]) -> Problem:
    """A name that the file does not declare, with the nearest one."""
    meant = near(name, known)
    hint = f"did you mean {meant}?" if meant else f"declared: {', '.join(known[:8]) or 'none'}"
    if what in _SECTIONS and not meant:
        hint += f"; or declare it: {_SECTIONS[what]}: [{{name: {one_line(name)}}}]"
    return Problem(path, f"no {what} is called {name}", hint)


def twice(names: list[str], field: str, what: str) -> Iterator[Problem]:
    """Entries of a list with one name."""
    for name in repeated(names):
        last = len(names) - 1 - names[::-1].index(name)
        hint = f"give every {what} its own name"
        yield Problem((field, last, "name"), f"two entries are called {name}", hint)


_E, _W = Level.ERROR, Level.WARNING
_QOS: Final = ("qos.name", "qos.preempts", "accounts.qos", "users.qos")
RULES: Final = (
    Rule("account-duplicate", _E, "Two accounts of one name.",
         (), accounts_duplicate, ("accounts.name",)),
    Rule("account-reserved", _E, "An account called root, which is Slurm's own.",
         ("accounts.name",), account_reserved),
    Rule("account-parent-unknown", _E, "An account below one that is not declared.",
         ("accounts.parent",), account_parent, ("accounts.name",)),
    Rule("account-loop", _E, "An account that is its own ancestor.",
         (), account_loop, ("accounts.name", "accounts.parent")),
    Rule("user-account-unknown", _E, "A user in an account that is not declared.",
         ("users.account",), user_account, ("accounts.name",)),
    Rule("qos-duplicate", _E, "Two QOS of one name.", (), qos_duplicate, ("qos.name",)),
    Rule("qos-unknown", _E, "A QOS that is not declared.", (), qos_unknown, _QOS),
    Rule("limits-without-accounting", _E, "Accounts, QOS or limits without slurmdbd.",
         ("accounts", "qos", "users"), without_accounting, ("slurm.accounting",)),
    Rule("limit-without-gpu", _E, "A limit on GPUs in a cluster without any: Slurm would not know "
         "the word.",
         ("accounts.limits", "users.limits", "qos.limits", "qos.per_user"), gpu_limit,
         ("groups.gpu", "groups.gpus")),
    Rule("home-system-folder", _E, "A home in a folder of the system such as /etc or /root.",
         ("users.home",), home_folder),
    Rule("home-duplicate", _E, "Two users in one home.",
         (), home_duplicate, ("users.home", "users.name")),
    Rule("key-shared", _W, "One SSH key for two users: logs then name the wrong person.",
         ("users.name",), key_shared, ("users.keys",)),
    Rule("access-login-unknown", _E, "access.login names a machine that is not a node.",
         ("access.login",), login_nodes, ("groups.nodes",)),
    Rule("directory-kind", _E, "A directory that needs more of each machine than LDAP.",
         ("directory.kind",), directory_kind),
    Rule("directory-unencrypted", _E, "A directory that is read unencrypted: passwords could be "
         "read, and keys and people forged.",
         ("directory.tls", "directory.uris", "directory.bind_dn"), directory_encrypted),
    Rule("directory-password", _E, "bind_dn without password_file, or the other way round.",
         ("directory.bind_dn", "directory.password_file"), directory_password),
    Rule("directory-group", _E, "A group of the directory that is named twice, or whose account or "
         "QOS is not declared.",
         ("directory.groups",), directory_groups, ("accounts.name", "qos.name")),
    Rule("directory-without-accounting", _E, "Accounts of a group's members without slurmdbd.",
         ("directory.groups", "slurm.accounting"), directory_accounting),
    Rule("directory-qos-submitted", _E, "A QOS with limits.submitted for jobs in an account of a "
         "group: who left the group could still submit.",
         ("qos.limits.submitted",), directory_submitted,
         ("directory.groups", "accounts.qos", "accounts.parent", "partitions.qos",
          "partitions.allow_accounts", "partitions.deny_accounts")),
    Rule("directory-homes", _E, "Homes of the directory's people in a folder of the system, or in "
         "one where the nodes of logins cannot make any.",
         ("directory.homes", "access.login"), directory_homes, ("storage",)),
    Rule("directory-homes-storage", _E, "Homes of the directory's people at the top of shared "
         "storage, or on storage that Corral does not keep.",
         ("directory.homes",), directory_homes_storage, ("storage",)),
)  # fmt: skip
