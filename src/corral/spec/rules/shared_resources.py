"""Rules about what all nodes share: networks, folders and users."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath
from typing import Final

from corral.spec.explain import near
from corral.spec.findings import Level
from corral.spec.models import Storage
from corral.spec.tree import Path
from corral.spec.view import Problem, Rule, View, repeated, some
from corral.tables import Row, Words, read_table

FASTEST_GBPS: Final = 1600


class System(Row):
    """What belongs to the system of a machine; the table of this folder has the names.

    The cluster file may not take it for something else.

    Attributes:
        names: users and groups.
        trees: folders that are the system's with all below.
        folders: those that are the system's, and not what is below.
        wireless: beginnings of names of interfaces for Wi-Fi.
        virtual: beginnings of names of interfaces that do not lead to other machines.
    """

    names: Words
    trees: Words
    folders: Words
    wireless: Words
    virtual: Words

    def has(self, folder: PurePosixPath) -> bool:
        """Whether a folder is the system's."""
        return str(folder) in self.folders or any(folder.is_relative_to(t) for t in self.trees)


@cache
def system() -> System:
    """The table."""
    return read_table("corral.spec.rules", "system.yaml", System)


def data_interface(view: View) -> Iterator[Problem]:
    """A data network on an interface that is not connected to other machines."""
    data = view.spec.network.data
    name = (data.interface if data else None) or ""
    path: Path = ("network", "data", "interface")
    if name == "lo" or name.startswith(system().virtual):
        hint = "write the name of the wired interface; see: ip -brief address"
        yield Problem(path, f"{name} does not lead to the other nodes", hint)


def data_wireless(view: View) -> Iterator[Problem]:
    """A data network over radio."""
    data = view.spec.network.data
    name = (data.interface if data else None) or ""
    if name.startswith(system().wireless):
        message = f"{name} looks like Wi-Fi; collectives over it are slow and unsteady"
        yield Problem(("network", "data", "interface"), message, "name the wired interface")


def data_rate(view: View) -> Iterator[Problem]:
    """Mb/s where Gb/s is meant."""
    data = view.spec.network.data
    if data and data.gbps and data.gbps > FASTEST_GBPS:
        message = f"{data.gbps:g} Gb/s is more than any network"
        hint = f"write {data.gbps / 1000:g}, if it is in Mb/s"
        yield Problem(("network", "data", "gbps"), message, hint)


def nfs_fields(view: View) -> Iterator[Problem]:
    """NFS that does not state what is served."""
    for i, storage in _kind(view, "nfs"):
        for name in ("server", "path"):
            if getattr(storage, name) is None:
                hint = "add path: /srv/corral"
                if name == "server":
                    hint = "add server: and a node; a server outside the cluster is kind: existing"
                yield Problem(("storage", i), f"kind nfs needs {name}", hint)


def storage_unused(view: View) -> Iterator[Problem]:
    """Fields that have no effect with this kind of storage."""
    for i, storage in enumerate(view.spec.storage):
        for name in ("server", "path"):
            if storage.kind != "nfs" and getattr(storage, name) is not None:
                message = f"{name} has no effect with kind {storage.kind}"
                hint = f"remove {name}, or write kind: nfs"
                yield Problem(("storage", i, name), message, hint)
        if storage.kind != "nfs" and not storage.root_squash:
            message = f"root_squash has no effect with kind {storage.kind}"
            yield Problem(("storage", i, "root_squash"), message, "remove root_squash")


def storage_server(view: View) -> Iterator[Problem]:
    """A server that is not a node."""
    names = view.names
    for i, storage in _kind(view, "nfs"):
        if storage.server and view.complete and storage.server not in names:
            meant = near(storage.server, list(names)[:1000])
            hint = f"did you mean {meant}?" if meant else f"nodes: {some(list(names))}"
            hint += "; a server outside the cluster is kind: existing"
            yield Problem(("storage", i, "server"), f"no node is called {storage.server}", hint)


def storage_provider(view: View) -> Iterator[Problem]:
    """A provider that has no folder to share."""
    others = view.where(lambda c: c.owned and not c.here)
    for i, _ in _kind(view, "provider"):
        if others:
            message = f"provider {others[0].group.provider} shares no folders"
            hint = "write kind: nfs with server and path, or kind: existing"
            yield Problem(("storage", i, "kind"), message, hint)


def storage_keeper(view: View) -> Iterator[Problem]:
    """Jobs' code on a folder whose owner and mode Corral does not set."""
    for i, storage in _kind(view, "existing")[:1]:
        if i == 0:
            message = (
                f"the code of jobs is kept in {storage.mount}, whose owner and mode Corral leaves: "
                "jobs are refused where another user could replace it"
            )
            hint = f"check on the machine that holds it: stat -c '%U %a' {storage.mount}: root 1777"
            yield Problem(("storage", i, "kind"), message, hint)


def mount_duplicate(view: View) -> Iterator[Problem]:
    """Two folders at one place."""
    mounts = [storage.mount for storage in view.spec.storage]
    last = {mount: i for i, mount in enumerate(mounts)}
    for mount in repeated(mounts):
        hint = "give each its own mount"
        yield Problem(("storage", last[mount], "mount"), f"{mount} is mounted twice", hint)


def mount_nested(view: View) -> Iterator[Problem]:
    """A mount below another one hides a part of it."""
    mounts = [PurePosixPath(storage.mount) for storage in view.spec.storage]
    known = set(mounts)
    for i, mount in enumerate(mounts):
        above = [parent for parent in mount.parents if parent in known]
        if above:
            hint = "put them side by side"
            yield Problem(("storage", i, "mount"), f"{mount} is inside {above[0]}", hint)


def storage_loop(view: View) -> Iterator[Problem]:
    """A served folder that holds its own mount, or the other way round."""
    for i, storage in _kind(view, "nfs"):
        path, mount = PurePosixPath(storage.path or "/x"), PurePosixPath(storage.mount)
        if storage.path and path != mount and (_within(path, mount) or _within(mount, path)):
            message = f"{path} and {mount} are inside each other on the server"
            yield Problem(
                ("storage", i, "path"), message, "serve another folder, such as /srv/corral"
            )


def system_folder(view: View) -> Iterator[Problem]:
    """Mounting over the system, or serving it."""
    for i, storage in enumerate(view.spec.storage):
        if _system(storage.mount):
            message = f"{storage.mount} belongs to the system; a mount would hide it"
            yield Problem(("storage", i, "mount"), message, "write /shared, /home or /data")
        if storage.path and _system(storage.path):
            message = f"{storage.path} belongs to the system; all nodes could write to it"
            yield Problem(("storage", i, "path"), message, "write /srv/corral, for instance")


def hides_home(view: View) -> Iterator[Problem]:
    """A mount over the home folders that hold the login user's keys."""
    login = {group.group.ssh.user for group in view.where(lambda c: c.owned)} - {"root"}
    for i, storage in enumerate(view.spec.storage):
        if storage.kind == "nfs" and login and _within(PurePosixPath("/home"), storage.mount):
            message = f"mounting {storage.mount} hides the SSH keys of {', '.join(sorted(login))}"
            hint = "copy the home folders to the server first, or mount at another place"
            yield Problem(("storage", i, "mount"), message, hint)


def user_reserved(view: View) -> Iterator[Problem]:
    """Users that the system has for itself."""
    for i, user in enumerate(view.spec.users):
        if user.name in system().names or user.name.startswith("systemd-"):
            message = f"{user.name} is a user or group of the system"
            yield Problem(("users", i, "name"), message, "users are people, such as alice")


def user_duplicate(view: View) -> Iterator[Problem]:
    """Two users of one name."""
    yield from _twice([user.name for user in view.spec.users], "name")


def uid_duplicate(view: View) -> Iterator[Problem]:
    """Two users of one number."""
    yield from _twice([str(user.uid) for user in view.spec.users], "uid")


def _twice(values: list[str], field: str) -> Iterator[Problem]:
    for value in repeated(values):
        last = len(values) - 1 - values[::-1].index(value)
        hint = f"give every user a different {field}"
        yield Problem(("users", last, field), f"two users have the {field} {value}", hint)


def _kind(view: View, kind: str) -> list[tuple[int, Storage]]:
    return [(i, storage) for i, storage in enumerate(view.spec.storage) if storage.kind == kind]


def _within(inner: PurePosixPath, outer: PurePosixPath | str) -> bool:
    return inner.is_relative_to(outer)


def _system(text: str) -> bool:
    path = PurePosixPath(text)
    return system().has(path)


_STORAGE: Final = ("storage",)
_E, _W = Level.ERROR, Level.WARNING
RULES: Final = (
    Rule("data-interface-local", _E, "The data network on lo or on a bridge of containers.",
         ("network.data",), data_interface),
    Rule("data-interface-wireless", _W, "The data network on Wi-Fi.",
         ("network.data",), data_wireless),
    Rule("data-rate-unlikely", _W, "More than 1600 Gb/s: most likely Mb/s was meant.",
         ("network.data",), data_rate),
    Rule("storage-nfs-incomplete", _E, "kind: nfs without server or path.",
         ("storage.kind", "storage.server", "storage.path"), nfs_fields),
    Rule("storage-field-unused", _W, "Fields of NFS with a kind that does not read them.",
         _STORAGE, storage_unused),
    Rule("storage-server-unknown", _E, "The server of an NFS folder is not one of the nodes.",
         ("storage.server", "storage.kind"), storage_server, ("groups.nodes", "groups.addresses")),
    Rule("storage-provider-unable", _E, "kind: provider on machines whose provider shares nothing.",
         ("storage.kind",), storage_provider, ("groups.provider",)),
    Rule("storage-keeper", Level.INFO, "Jobs' code on a folder whose owner and mode Corral does "
         "not set: it must belong to root, with the sticky bit where users write to it.",
         ("storage.kind", "storage.mount"), storage_keeper),
    Rule("storage-mount-duplicate", _E, "Two folders mounted at one place.",
         (), mount_duplicate, ("storage.mount",)),
    Rule("storage-mount-nested", _W, "A folder mounted inside another one.",
         (), mount_nested, ("storage.mount",)),
    Rule("storage-loop", _E, "The served folder and its mount are inside each other.",
         _STORAGE, storage_loop),
    Rule("storage-system-folder", _E, "A mount over, or an NFS export of, a folder of the system "
         "such as /etc, /usr or /tmp; /home, /srv, /opt and folders below /var are fine.",
         _STORAGE, system_folder),
    Rule("storage-hides-home", _W, "An NFS mount over the home folders on machines where Corral "
         "logs in by keys in one of them.",
         ("storage.mount", "storage.kind"), hides_home, ("groups.ssh", "groups.provider")),
    Rule("user-reserved", _E, "A user that the system keeps for itself, such as root, slurm or "
         "docker.", ("users.name",), user_reserved),
    Rule("user-duplicate", _E, "Two users of one name.", (), user_duplicate, ("users.name",)),
    Rule("uid-duplicate", _E, "Two users of one uid.", (), uid_duplicate, ("users.uid",)),
)  # fmt: skip
