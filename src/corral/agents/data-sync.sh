#!/bin/sh
# Functions that copy a folder of one node to others. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (api/mesh/data_sync)
# Runs as: root
# shellcheck source=src/corral/agents/folder-checks.sh
. folder-checks.sh #include
# shellcheck source=src/corral/agents/keys.sh
. keys.sh #include

# folder_guard FOLDER MAKE: fails where a user could replace a folder that root reads or writes; makes what is missing where
# MAKE is yes. rsync is root's on both nodes and follows links on the way to the folder. One that belongs to a user is
# that user's content, and may not be renamed: the one above it must be root's alone.
folder_guard() (
  at='' rest=$1
  while [ -n "$rest" ]; do
    rest=${rest#/} part=${rest#/}
    part=${part%%/*}
    rest=${rest#"$part"} at=$at/$part
    [ -e "$at" ] || [ -L "$at" ] || {
      held "${at%/*}" 0 || exit 1
      [ "$2" = no ] || mkdir "$at" 2>/dev/null || [ -d "$at" ] || exit 1
    }
  done
  if [ -L "$at" ] || [ "$(stat -c %u "$at")" = 0 ]; then
    held "$at" 0 || exit 1
    exit 0
  fi
  held "${at%/*}" 0 || exit 1
  case $(stat -c %A "${at%/*}/") in ?????w* | ????????w*)
    echo "$at belongs to $(stat -c %U "$at"), who can replace it" >&2
    exit 1
    ;;
  esac
)

# sync_begin FOLDER RUN MARK: makes a key in the folder RUN, and prints its public half.
sync_begin() {
  command -v rsync ssh ssh-keygen >/dev/null || { echo rsync or ssh is missing >&2; return 4; }
  [ -d "$1" ] || { echo "no folder $1 here" >&2; return 5; }
  folder_guard "$1" no && mkdir -m 700 "$2" && ssh-keygen -q -t ed25519 -N '' -C "$3" -f "$2/key" && cat "$2/key.pub"
}

# sync_admit FILE LINE: lets the key in; prints port and host key of this machine's sshd.
sync_admit() (
  command -v rsync >/dev/null || { echo rsync is missing >&2; exit 4; }
  umask 077
  mkdir -p "${1%/*}" && line_add "$1" "$2" && /usr/sbin/sshd -T 2>/dev/null | sed -n 's/^port //p' | head -n 1 &&
    cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub
)

# sync_send RUN KNOWN OPTION...: of rsync.
sync_send() (
  run=$1 known=$2
  shift 2
  umask 077
  printf %s "$known" >>"$run/known" && LC_ALL=C rsync -a --partial --mkpath --stats --timeout=300 "$@"
)

# sync_end FILE MARK: takes the key out.
sync_end() (
  [ -f "$1" ] && grep -q "$2" "$1" || exit 0
  new=$(mktemp "$1.XXXXXX") || exit 1
  grep -v "$2" "$1" >"$new"
  chmod 600 "$new" && mv -f "$new" "$1"
)
