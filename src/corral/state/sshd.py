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

from corral.hosts.quote import Script, sh
from corral.state.base import (
    Change,
    Context,
    Gate,
    Impact,
    Seen,
    Standalone,
)

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

# Debian and Ubuntu call it ssh, others sshd. With a socket that starts one sshd per connection
# there is nothing to reload.
_RELOAD: Final = Script(
    "if systemctl cat ssh.service >/dev/null 2>&1; then u=ssh; else u=sshd; fi; "
    'systemctl try-reload-or-restart "$u.service"'
)
# sshd checks for its folder even when it only tests its config (Debian bug 864857).
_OFF: Final = Script(
    "[ -d /run/sshd ] || mkdir -p -m 755 /run/sshd\n"
    "off() { sshd -T 2>/dev/null | "
    "grep -cxE '(passwordauthentication|kbdinteractiveauthentication) no' | grep -qx 2; }"
)


@dataclass(frozen=True, slots=True)
class KeysOnly(Standalone):
    """sshd takes keys and no passwords.

    Attributes:
        trial: seconds until the machine reverts the change automatically.
    """

    trial: int = TRIAL_S

    @property
    def id(self) -> str:
        """``logins:keys-only``."""
        return "logins:keys-only"

    def probe(self) -> Script:
        """``off`` or ``on``, as sshd itself understands its config; ``trial`` while one goes on."""
        return sh(
            "{functions}\nif off; then echo off; else echo on; fi; "
            "if [ -e {timer} ]; then echo trial; fi",
            functions=_OFF,
            timer=f"{UNITS}/{UNIT}.timer",
        )

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
            "{off}\n"
            'put() {{ mkdir -p "${{1%/*}}" && printf %s "$2" > "$1.new" && '
            'mv -f "$1.new" "$1"; }}\n'
            "back() {{ /bin/sh {undo}; exit 1; }}\n"
            "put {undo} {undo_text} && put {service} {service_text} && put {timer} {timer_text} && "
            "systemctl daemon-reload && systemctl enable -q {unit} && systemctl restart {unit} && "
            "systemctl is-active -q {unit} || exit 1\n"
            "put {drop_in} {text} || back\n"
            "sshd -t >&2 || back\n"
            "if ! off; then\n"
            "  echo {vain} >&2\n"
            "  grep -nisE '^[[:space:]]*(include|passwordauthentication|kbdinteractive|challenge)' "
            "/etc/ssh/sshd_config /etc/ssh/sshd_config.d/*.conf >&2\n"
            "  back\n"
            "fi\n"
            "{{ {reload}; }} || back",
            off=_OFF,
            undo=UNDO,
            undo_text=str(_undo()),
            service=f"{UNITS}/{UNIT}.service",
            service_text=_SERVICE,
            timer=f"{UNITS}/{UNIT}.timer",
            timer_text=_TIMER.format(seconds=self.trial),
            unit=f"{UNIT}.timer",
            drop_in=DROP_IN,
            text=_DROP_IN_TEXT,
            vain=f"{DROP_IN} has no effect: an earlier line of sshd's config wins, or it does not "
            "include that folder",
            reload=_RELOAD,
        )


def confirmed(node: str) -> Gate:
    """A login by key through a new connection, which ends the trial; true where none goes on."""
    return Gate(
        "a new login by key works",
        node,
        sh(
            "{off}\n"
            "[ -e {timer} ] || {{ off; exit; }}\n"
            "off || exit 1\n"
            "systemctl stop {unit}.timer\n"
            # The timer may have been faster: then its work is done, or goes on and is waited for.
            "if ! [ -e {drop_in} ] || systemctl is-active -q {unit}.service || ! off; then\n"
            "  systemctl start {unit}.service; exit 1\n"
            "fi\n"
            "systemctl disable -q {unit}.timer\n"
            "rm -f {timer} {service} {undo} && systemctl daemon-reload",
            off=_OFF,
            timer=f"{UNITS}/{UNIT}.timer",
            service=f"{UNITS}/{UNIT}.service",
            unit=UNIT,
            drop_in=DROP_IN,
            undo=UNDO,
        ),
        timeout=10.0,
        hint="nobody is locked out: the machine takes passwords again within a minute; "
        "see that the key logs in with: corral keys install FILE",
        alone=True,
    )


def _undo() -> Script:
    """What the machine runs on its own; safe to run twice."""
    return sh(
        "rm -f {drop_in}\n{{ {reload}; }}\nsystemctl disable -q {unit}.timer\n"
        "rm -f {timer} {service} {undo}\nsystemctl daemon-reload\n"
        "systemctl stop --no-block {unit}.timer 2>/dev/null\n:\n",
        drop_in=DROP_IN,
        reload=_RELOAD,
        unit=UNIT,
        timer=f"{UNITS}/{UNIT}.timer",
        service=f"{UNITS}/{UNIT}.service",
        undo=UNDO,
    )


SSHD: Final = "/etc/pam.d/sshd"
COMMON: Final = "/etc/pam.d/common-session"
SESSION: Final = "/etc/pam.d/corral-sshd-session"
EXEMPT: Final = "/etc/security/corral-access.conf"
MODULE: Final = "pam_slurm_adopt.so"
# SchedMD's package puts it into /lib/security, where Debian's PAM looks last.
_PLACES: Final = Script(
    " ".join(f"{d}/security/{MODULE}" for d in ("/lib", "/lib/*", "/usr/lib/*"))
)

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

_PLAIN: Final = (
    "/^# corral begin/ { b = 1; next } /^# corral end/ { b = 0; next } "
    'b { if (sub(/^#corral# /, "")) print; next } { print }'
)
# pam_slurm_adopt comes last in the account stack (its manual): behind the last line of that stack.
_INTO: Final = (
    "{ l[NR] = $0 } /^-?account[ \\t]/ || /^@include[ \\t]+common-account/ { a = NR } "
    "END { for (i = 1; i <= NR; i++) { "
    "if (l[i] ~ /^@include[ \\t]+common-session[ \\t]*$/) print session; else print l[i]; "
    "if (i == a) print account } if (!a) print account }"
)
# pam_systemd would move the session out of the job's cgroup: those whom pam_access does not name
# (they were let in by a job) jump over it.
_SKIP: Final = (
    f'BEGIN {{ print "# Made by Corral from {COMMON}; see {EXEMPT}." }} '
    f'/pam_systemd\\.so/ && !/^#/ {{ print "session [success=ignore default=1] pam_access.so '
    f'accessfile={EXEMPT} noaudit" }} {{ print }}'
)


@dataclass(frozen=True, slots=True)
class SshdAdopt(Standalone):
    """sshd's PAM file with pam_slurm_adopt, or as the distribution made it.

    Attributes:
        on: only those with a job may log in.
    """

    on: bool

    @property
    def id(self) -> str:
        """``sshd-adopt``."""
        return "sshd-adopt"

    def probe(self) -> Script:
        """Four words: blocks in sshd's file, session file, module there?, does sshd ask PAM?"""
        if not self.on:
            return sh(
                "if grep -q '^# corral begin' {sshd} 2>/dev/null || [ -e {session} ]; "
                "then echo there; else echo absent; fi",
                sshd=SSHD,
                session=SESSION,
            )
        return sh(
            "{wanted}; f=differs; s=differs; "
            "if sshd | cmp -s - {sshd}; then f=same; fi; "
            "if session | cmp -s - {session}; then s=same; fi; "
            'm=absent; for x in {places}; do [ ! -e "$x" ] || m=there; done; '
            "p=$({{ /usr/sbin/sshd -T 2>/dev/null || echo usepam unknown; }} | "
            "sed -n 's/^usepam //p'); "
            'echo "$f $s $m ${{p:-unknown}}"',
            wanted=self._wanted(),
            sshd=SSHD,
            session=SESSION,
            places=_PLACES,
        )

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

    def _wanted(self) -> Script:
        """Shell functions that print both files as they should be."""
        return sh(
            "sshd() {{ awk {plain} {sshd} | "
            "awk -v account={account} -v session={with_} {into}; }}; "
            "session() {{ awk {skip} {common}; }}",
            plain=_PLAIN,
            into=_INTO,
            skip=_SKIP,
            account=_ACCOUNT,
            with_=_WITH,
            sshd=SSHD,
            common=COMMON,
        )

    def _put_in(self) -> Script:
        # The module must be there first: PAM refuses everybody who reaches a module it cannot load.
        return sh(
            "{wanted}; ls {places} 2>/dev/null | grep -q . || "
            "{{ echo 'no pam_slurm_adopt is installed' >&2; exit 1; }}; "
            "[ -s {exempt} ] && session > {session}.new && mv -f {session}.new {session} && "
            "sshd > {sshd}.corral && [ -s {sshd}.corral ] && chmod 644 {sshd}.corral && "
            "mv -f {sshd}.corral {sshd}",
            wanted=self._wanted(),
            places=_PLACES,
            exempt=EXEMPT,
            session=SESSION,
            sshd=SSHD,
        )

    def _take_out(self) -> Change:
        return Change(
            self.id,
            "ssh: log in to this node without a job again",
            "pam_slurm_adopt",
            "",
            sh(
                "awk {plain} {sshd} > {sshd}.corral && [ -s {sshd}.corral ] && "
                "chmod 644 {sshd}.corral && mv -f {sshd}.corral {sshd} && rm -f {session}",
                plain=_PLAIN,
                sshd=SSHD,
                session=SESSION,
            ),
            keeps=(f"file:{SSHD}", f"file:{SESSION}"),
        )
