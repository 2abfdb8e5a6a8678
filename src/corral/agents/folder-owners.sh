#!/bin/sh
# ours NAME UID MODE and open_to_all NAME: folders on shared storage belong to who uses them.
#
# Installed as: nowhere: sent before the calls
# Started by: corral (state/storage/job_folders)
# Runs as: root
# Only root renames what is not its own in a folder with the sticky bit: what was put there goes
# aside, with its content, and may be put there again before mkdir: so it is tried more than once.
ours() {
  for _ in 1 2 3 4 5 6 7 8 9; do
    if mkdir -m 0700 "$1" 2>/dev/null; then
      chown "$2:$2" "$1" && chmod "$3" "$1"
      return
    fi
    if [ ! -L "$1" ] && [ -d "$1" ] && [ "$(stat -c %u "$1")" = "$2" ]; then
      [ "$2" != 0 ] || chmod go-w "$1"
      return
    fi
    mv -T -- "$1" "$1.of-$(stat -c %u "$1").$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')" ||
      return 1
  done
  echo "$1 is put there again and again" >&2
  return 1
}
# Its content is used by jobs and stays. Once it is root's nobody can put a link in its place, so
# that chmod, which follows links, comes last.
open_to_all() {
  if [ -d "$1" ] && [ ! -L "$1" ]; then
    chown -h 0:0 "$1" || return 1
  fi
  ours "$1" 0 0755 && [ ! -L "$1" ] && chmod 1777 "$1"
}
