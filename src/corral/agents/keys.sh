#!/bin/sh
# Functions for a login user's keys. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (hosts/keysetup)
# Runs as: the login user

# line_add FILE LINE: a last line without its newline would swallow it.
line_add() {
  { [ ! -s "$1" ] || [ -z "$(tail -c 1 "$1")" ] || echo >>"$1"; } && printf '%s\n' "$2" >>"$1"
}

# key_authorize KEY LINE: where the key, kind and text, is not in authorized_keys yet. sshd ignores the file where the home
# folder, ~/.ssh or the file can be written by others (StrictModes, sshd_config(5)).
key_authorize() (
  umask 077
  folder=$HOME/.ssh file=$HOME/.ssh/authorized_keys
  cd && mkdir -p "$folder" && chmod 700 "$folder" && chmod go-w "$HOME" && touch "$file" && chmod 600 "$file" || exit 1
  grep -qF "$1" "$file" || line_add "$file" "$2" || exit 1
  ! command -v restorecon >/dev/null || restorecon -R "$folder"
  :
)
