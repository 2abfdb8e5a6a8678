"""Logins by sshd: password logins off, on trial, and pam_slurm_adopt. Pure.

The machine itself takes the change back: a timer unit on its disk, started before the change,
undoes it after ``trial`` seconds, whatever became of Corral, of the connection or of the machine
(an enabled timer counts again after a reboot). Only the gate ends the trial, and it comes by a new
connection that logs in by key (``Gate.alone``). docs/decisions/0014.

Two managed blocks in /etc/pam.d/sshd. What a block replaces is in it behind ``#corral# ``, so
that taking the blocks out returns the file as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, call, sh
from corral.spec.impacts import Impact
from corral.state.base import Change, Context, Gate, Seen, Standalone

# The first value counts (sshd_config(5)), and the folder is read in this order: before
# 50-cloud-init.conf, which switches passwords on.
DROP_IN: Final = "/etc/ssh/sshd_config.d/00-corral.conf"
UNDO: Final = "/var/lib/corral/sshd-undo"
UNIT: Final = "corral-sshd-undo"
UNITS: Final = "/etc/systemd/system"
TRIAL_S: Final = 40
"""Seconds until the machine undoes it; with the timer's accuracy and the reload under a minute."""

_DROP_IN_TEXT: Final = """\
# Written by Corral (ssh.password_login: off).
PasswordAuthentication no
KbdInteractiveAuthentication no
"""
_TIMER: Final = """\
[Unit]
Description=Take back Corral's change of sshd, unless a login by key confirms it
[Timer]
OnActiveSec={seconds}
AccuracySec=1s
[Install]
WantedBy=timers.target
"""
_SERVICE: Final = f"""\
[Unit]
Description=Take back Corral's change of sshd
[Service]
Type=oneshot
ExecStart=/bin/sh {UNDO}
"""

_PROGRAM: Final = "state/sshd.sh"
_TIMER_FILE: Final = f"{UNITS}/{UNIT}.timer"
_SERVICE_FILE: Final = f"{UNITS}/{UNIT}.service"
_FILES: Final = (_TIMER_FILE, _SERVICE_FILE, UNDO)


@dataclass(frozen=True, slots=True)
class KeysOnly(Standalone):
    """sshd takes keys and no passwords.

    Attributes:
        trial: seconds until the machine reverts the change automatically.
    """

    trial: int = TRIAL_S

    @property
    def id(self) -> str:
        return "logins:keys-only"

    def probe(self) -> Script:
        """``off`` or ``on``, as sshd itself understands its config; ``trial`` while one goes on."""
        return call(_PROGRAM, "keys_only_probe", _TIMER_FILE)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Switch passwords off, on trial."""
        if seen.text == "off":
            return None
        return Change(
            self.id,
            "sshd takes keys only (confirmed by a new login by key, else taken back)",
            seen.text,
            "off",
            self._arm(),
            Impact.RELOAD,
            keeps=(f"file:{DROP_IN}",),
        )

    def _arm(self) -> Script:
        """The guard first, then the change; a test of the config before sshd reads it."""
        return sh(
            "{guard} || exit 1\n{change}",
            guard=call(
                _PROGRAM,
                "trial_guard",
                f"{UNIT}.timer",
                UNDO,
                str(_undo()),
                _SERVICE_FILE,
                _SERVICE,
                _TIMER_FILE,
                _TIMER.format(seconds=self.trial),
            ),
            change=call(
                _PROGRAM,
                "keys_only_try",
                DROP_IN,
                _DROP_IN_TEXT,
                f"{DROP_IN} has no effect: an earlier line of sshd's config wins, or it does not "
                "include that folder",
                UNDO,
            ),
        )


def confirmed(node: str) -> Gate:
    """A login by key through a new connection, which ends the trial; true where none goes on."""
    return Gate(
        "a new login by key works",
        node,
        call(_PROGRAM, "trial_end", UNIT, DROP_IN, *_FILES),
        timeout=10.0,
        hint="nobody is locked out: the machine takes passwords again within a minute; "
        "see that the key logs in with: corral keys install FILE",
        alone=True,
    )


def _undo() -> Script:
    """What the machine runs on its own; safe to run twice."""
    return call(_PROGRAM, "sshd_undo", UNIT, DROP_IN, *_FILES)


SSHD: Final = "/etc/pam.d/sshd"
COMMON: Final = "/etc/pam.d/common-session"
SESSION: Final = "/etc/pam.d/corral-sshd-session"
EXEMPT: Final = "/etc/security/corral-access.conf"
MODULE: Final = "pam_slurm_adopt.so"
_ACCOUNT: Final = f"""\
# corral begin: managed block, changes inside are overwritten
# Who stands in {EXEMPT} is let in here, whatever state Slurm is in; all others by a job.
account sufficient pam_access.so accessfile={EXEMPT} noaudit
account required {MODULE} action_adopt_failure=deny action_generic_failure=deny
# corral end"""
_WITH: Final = """\
# corral begin: managed block, changes inside are overwritten
#corral# @include common-session
@include corral-sshd-session
# corral end"""

_ADOPT: Final = (SSHD, SESSION, COMMON, EXEMPT, _ACCOUNT, _WITH)


@dataclass(frozen=True, slots=True)
class SshdAdopt(Standalone):
    """sshd's PAM file with pam_slurm_adopt, or as the distribution made it.

    Attributes:
        on: only those with a job may log in.
    """

    on: bool

    @property
    def id(self) -> str:
        return "sshd-adopt"

    def probe(self) -> Script:
        """Four words: blocks in sshd's file, session file, module there?, does sshd ask PAM?"""
        if not self.on:
            return call(_PROGRAM, "adopt_there", SSHD, SESSION)
        return call(_PROGRAM, "adopt_probe", *_ADOPT)

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """Put the blocks in, or take them out."""
        if not self.on:
            return None if seen.text != "there" else self._take_out()
        blocks, session, _, pam = (*seen.text.split(), "", "", "", "")[:4]
        if blocks == "same" and session == "same" and pam != "no":
            return None
        return Change(
            self.id,
            "ssh: log in to this node only with a job on it (pam_slurm_adopt)",
            "" if blocks == "differs" else "an older session file",
            _ACCOUNT,
            self._put_in(),
            keeps=(f"file:{SSHD}", f"file:{SESSION}"),
            refuses="UsePAM is off in sshd_config, so sshd would not ask pam_slurm_adopt: "
            "set UsePAM yes"
            if pam == "no"
            else "",
        )

    def _put_in(self) -> Script:
        return call(_PROGRAM, "adopt_put", *_ADOPT)

    def _take_out(self) -> Change:
        return Change(
            self.id,
            "ssh: log in to this node without a job again",
            "pam_slurm_adopt",
            "",
            call(_PROGRAM, "adopt_take_out", SSHD, SESSION),
            keeps=(f"file:{SSHD}", f"file:{SESSION}"),
        )
