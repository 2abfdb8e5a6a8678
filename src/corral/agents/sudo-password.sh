#!/bin/sh
# Runs its argument by sudo, with a password that is the first line of standard input. One line: csh, which may be the
# user's shell, takes none that goes on inside quotes.
#
# Installed as: nowhere: an argument of sh -c
# Started by: corral (hosts/sudo), on machines where sudo asks for a password
# Runs as: the login user
IFS= read -r p; LC_ALL=C; export LC_ALL; case $(command -v printf) in */*) echo corral: this sh has no builtin printf >&2; exit 1;; esac; if sudo -k -n -- /bin/sh -c : </dev/null 2>/dev/null; then unset p; exec sudo -k -n -- /bin/sh -c "$0"; fi; printf "%s\n" "$p" | sudo -k -S -p "" -- /bin/sh -c : || exit 1; { printf "%s\n" "$p"; unset p; exec cat; } | sudo -k -S -p "" -- /bin/sh -c "$0"
