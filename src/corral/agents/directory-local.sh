#!/bin/sh
# Written by Corral: entries of the directory never become users and groups of this machine. Root.
#
# Its arguments: SSSD's file of Corral's, and the file that it writes next to it before each start of SSSD. For names of this
# machine sshd asks SSSD for keys and PAM asks it for passwords, too; and a uid or group is the machine's whoever has it.
#
# Installed as: /usr/local/sbin/corral-directory-local (roles/machine/directory)
# Started by: sssd.service, before SSSD itself (ExecStartPre)
# Runs as: root
set -eu
LC_ALL=C
export LC_ALL
umask 077
settings=$1 file=$2

fail() { echo "corral-directory-local: $1" >&2; exit 1; }

# listed ENTRIES FIELD BEFORE AFTER PATTERN: a field of each entry between two texts, in one line.
listed() {
  printf '%s\n' "$1" | awk -F: -v field="$2" -v before="$3" -v after="$4" -v pattern="$5" '
    $field !~ pattern { print "corral-directory-local: SSSD can hold no list with " $field ": rename it" >"/dev/stderr"; exit 1 }
    { printf "%s%s%s", before, $field, after }'
}
# Nothing that SSSD divides a list by, or that has a meaning in a filter of LDAP (RFC 4515).
names() { listed "$1" 1 "$2" "$3" '^[A-Za-z0-9_.+-][A-Za-z0-9_.+$-]*$'; }
numbers() { listed "$1" 3 "$2" "$3" '^[0-9]+$'; }

base=$(sed -n 's/^ldap_search_base = //p' "$settings")
domain=$(sed -n 's/^\(\[domain\/.*\]\)$/\1/p' "$settings")
case $base:$domain in :* | *:) fail "$settings has no ldap_search_base" ;; esac
users=$(getent -s files passwd) || fail 'getent does not list the users of this machine'
groups=$(getent -s files group) || fail 'getent does not list the groups of this machine'
case $users in root:* | *"
root:"*) ;; *) fail 'getent lists no root' ;; esac
[ -n "$groups" ] || fail 'getent lists no groups'

# In variables, so that the first failure ends it all.
user_names=$(names "$users" '' ', ') user_filter=$(names "$users" '(uid=' ')')
uids=$(numbers "$users" '(uidNumber=' ')') gids=$(numbers "$groups" '(gidNumber=' ')')
group_names=$(names "$groups" '' ', ') group_filter=$(names "$groups" '(cn=' ')')

new=$(mktemp "${file%/*}/.corral-local.XXXXXX")
trap 'rm -f "$new"' EXIT
# A person's primary group counts as well: its number alone makes them its member.
cat >"$new" <<TEXT
# Written by corral-directory-local before each start of SSSD.
[nss]
filter_users = ${user_names%, }
filter_groups = ${group_names%, }

$domain
ldap_user_search_base = $base?subtree?(!(|$uids$user_filter$gids))
ldap_group_search_base = $base?subtree?(!(|$gids$group_filter))
TEXT
chown --reference="$settings" "$new"
chmod --reference="$settings" "$new"
changed=yes
! cmp -s "$new" "$file" || changed=no
mv -f "$new" "$file"
# What SSSD kept before is asked for again. Before its very first start there is nothing.
[ "$changed" = no ] || sss_cache -E >/dev/null 2>&1 || :
