#!/bin/sh
# Written by Corral: public keys of a person of the directory, for sshd; none for a user of this machine.
#
# Its argument is the name. sshd asks for users of this machine as well, also for those that came after SSSD's start.
#
# Installed as: /usr/local/sbin/corral-directory-keys (roles/machine/directory)
# Started by: sshd, at each login by key (AuthorizedKeysCommand)
# Runs as: nobody
set -u
LC_ALL=C
export LC_ALL
name=${1-}

# unknown KEY: no user of this machine has the name or number. 2: not found (getent(1)); any other failure shows nothing.
unknown() {
  getent -s files passwd "$1" >/dev/null 2>&1
  [ $? = 2 ]
}

case $name in '' | [!a-z_]* | *[!a-z0-9_.-]*) exit 0 ;; esac
[ ${#name} -le 32 ] && unknown "$name" || exit 0
entry=$(timeout 10 getent -s sss passwd "$name") || exit 0
uid=$(printf '%s\n' "$entry" | cut -d: -f3)
case $uid in '' | *[!0-9]*) exit 0 ;; esac
unknown "$uid" || exit 0
exec sss_ssh_authorizedkeys "$name"
