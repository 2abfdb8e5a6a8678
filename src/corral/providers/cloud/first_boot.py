"""What a rented machine runs at its first start, as root."""

from __future__ import annotations

from corral.hosts.quote import Script, join, sh


def boot_script(public_key: str, user: str) -> Script:
    """Let the cluster's key in for the account that Corral logs in with.

    Plain POSIX sh behind ``#!``: cloud-init, Paperspace's startup scripts and a pod's shell all run
    it. The same for all nodes, so that Paperspace holds one startup script for the cluster. No
    secret is in it: clouds show user data to whoever holds the account.
    """
    return join(
        [
            sh("#!/bin/sh\nset -e"),
            sh(
                'h=$(getent passwd {user} | cut -d: -f6); [ -n "$h" ] || h=/root\n'
                'install -d -m 700 "$h/.ssh"\n'
                'touch "$h/.ssh/authorized_keys"\n'
                'grep -qxF -e {key} "$h/.ssh/authorized_keys" || '
                "printf '%s\\n' {key} >> \"$h/.ssh/authorized_keys\"\n"
                'chmod 600 "$h/.ssh/authorized_keys"\n'
                'chown -R "$(stat -c %u:%g "$h")" "$h/.ssh"',
                user=user,
                key=public_key,
            ),
        ]
    )
