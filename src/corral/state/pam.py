"""pam_slurm_adopt in sshd's own PAM file: log in only where a job of yours runs. Pure.

Two managed blocks in /etc/pam.d/sshd. What a block replaces is in it behind ``#corral# ``, so
that taking the blocks out returns the file as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Seen, Standalone

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
