"""The ledger of what a machine was before Corral, and its release. Pure.

The programs are in ``agents/ledger``.

Every change's script runs between ``keeping`` and ``kept``. What is kept follows from the change's
resource id (``Change.keeps``): ``file:/etc/hosts`` keeps that file, ``packages:slurm`` keeps the
list of packages, and so on. ``state.ledger`` restores it all (docs/decisions/0022).

In /var/lib/corral:

* ``cluster``: the cluster the machine belongs to; another cluster's changes are refused.
* ``before/paths``, ``packages``, ``users``, ``groups``: all that was there when Corral's first
  change began. A path that is there is the owner's.
* ``before/files/PATH/``: ``.was``, the original with owner and mode; or ``.absent``; or ``.dir``,
  a folder's mode and owner. ``.now`` is the digest of what Corral wrote: another one means that
  somebody else wrote there since.
* ``before/units/UNIT``, ``before/logins/NAME``, ``before/sql/NAME``,
  ``before/postgres/NAME``, ``before/hostname``.
* ``packages``, ``packages.gone``, ``users``, ``groups``: what came and went in Corral's own runs of
  apt; ``packages.open`` is there while one is under way, so a crash in one loses nothing.

Each file is made under another name and renamed, so it is complete or not there.

A release takes four scripts, run one after the other on a machine: ``survey`` lists what would be
done, ``undo`` does it, ``leftovers`` compares with the machine's first inventory, ``close`` removes
the ledger. Each may be run again after a crash at any point. They answer with reports
(``hosts.framing``) ``WORD TEXT``:

* ``would``/``did``: a thing undone.
* ``kept``: a thing left there on purpose, and why.
* ``left``: a thing of Corral's that is still there: the ledger stays, and undo is run again.
* ``new``: a path that was not there before; it may be the owner's.
* ``none``: the machine has no ledger, so nothing of Corral's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from corral.hosts.framing import Reports
from corral.hosts.quote import Script, call, join, sh, shipped

FOLDER: Final = "/var/lib/corral"

KEPT_AS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "file": "path",
        "secret": "path",
        "directory": "path",
        "hosts": "hosts",
        "hostname": "hostname",
        "user": "login",
        "service": "unit",
        "packages": "packages",
        "database": "sql",
        "postgres": "postgres",
        "mount": "mount",
        "hold": "hold",
        "stopped": "unit",
        "debs": "packages",
        "pyenv": "path",
        # In slurmdbd, so in the database that is dropped; or in the ledger's own folder.
        **dict.fromkeys(("slurm-accounts", "slurm-reservations", "backup", "members"), ""),
        "group-accounts": "",
        # What they touch is in their changes' ``keeps``, or undo knows it by name.
        **dict.fromkeys(("ports", "exports", "parts", "sshd-adopt", "logins", "holds"), ""),
        **dict.fromkeys(("former-mounts", "former-people", "mesh", "supervised", "timer"), ""),
        **dict.fromkeys(("pam-profile", "host-based"), ""),
        # Shared storage is data: what jobs wrote stays.
        **dict.fromkeys(("job-folders", "member-folders"), ""),
        # They leave nothing behind.
        **dict.fromkeys(("leaving", "no-controller", "resume", "reboot", "clock", "existing"), ""),
        **dict.fromkeys(("no-backup-controller", "backup-stopped"), ""),
        # Pending jobs are data; ``down`` removes what is on the controller's own disk by name.
        "slurm-state": "",
        "own-sssd": "",
    }
)
"""What keeps the state before a change of each kind of resource; "" for what needs no keeping."""

FUNCTIONS: Final = shipped("ledger/keep.sh")
"""Shell functions of the ledger; POSIX sh with the tools of any Debian."""


def keeping(keeps: Sequence[str]) -> Script:
    """Shell that keeps what is there before a change, once and for all; cheap the second time."""
    return _each(keeps, sh("corral_keep"))


def kept(keeps: Sequence[str]) -> Script:
    """Shell that notes, after a change, what Corral left there."""
    return _each(keeps, sh("corral_kept"))


def _each(keeps: Sequence[str], function: Script) -> Script:
    calls: list[Script] = []
    for keep in keeps:
        kind, _, name = keep.partition(":")
        how = KEPT_AS.get(kind, "")
        if how:
            calls.append(sh("{f} {how} {name}", f=function, how=how, name=name))
    return join(calls, " && ") if calls else sh(":")


_COMMON: Final = shipped("ledger/common.sh")
_UNDO: Final = ("services", "databases", "files", "packages", "accounts")


def survey(reports: Reports) -> Script:
    """Read-only: what ``undo`` would do."""
    return join([_reporting(reports), FUNCTIONS, _COMMON, shipped("ledger/survey.sh")])


def _reporting(reports: Reports) -> Script:
    return sh("REPORT={mark}", mark=reports.mark)


def undo(reports: Reports, *, purge: bool) -> Script:
    """Undo all but the ledger itself.

    Args:
        reports: what its lines begin with.
        purge: also what users may miss: home folders of users that Corral made, folders that are
            not empty, and no dump of the accounting database.
    """
    head = sh(
        "{opened}\nexport DEBIAN_FRONTEND=noninteractive PURGE={purge}",
        opened=call("apply.sh", "stage_open", 60, 75),
        purge="yes" if purge else "no",
    )
    begin = Script("rm -f $L/failed; corral_packages_close")
    steps = [shipped(f"ledger/undo-{name}.sh") for name in _UNDO]
    return join([_reporting(reports), head, FUNCTIONS, _COMMON, begin, *steps])


def leftovers(reports: Reports) -> Script:
    """Read-only but for scratch files in the ledger: what of Corral's is still there."""
    return join([_reporting(reports), FUNCTIONS, _COMMON, shipped("ledger/leftovers.sh")])


def close() -> Script:
    """Remove the ledger; the machine is its owner's."""
    return sh("rm -rf /var/lib/corral /run/corral.lock && [ ! -e /var/lib/corral ]")
