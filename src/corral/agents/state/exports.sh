#!/bin/sh
# Functions for folders that a machine serves by NFS, and for those that others mount. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (state/storage/exports, state/storage/job_folders, state/storage/root_folders)
# Runs as: root
# shellcheck source=src/corral/agents/folder-checks.sh
. folder-checks.sh #include

# exports_probe FILE ETAB: the file, and which folder is served to whom with which squash now; both in base64.
exports_probe() (
  file=$(base64 -w0 "$1" 2>/dev/null)
  served=$(sed -n 's/^\([^[:space:]]*\)[[:space:]]*\([^(]*\)(.*[,(]\(\(no_\)\{0,1\}root_squash\),.*/\1 \2 \3/p' "$2" \
    2>/dev/null | sort | base64 -w0)
  echo "${file:--} ${served:--}"
)

# exports_write FILE TEXT
exports_write() {
  mkdir -p "${1%/*}" && printf %s "$2" >"$1.new" && chmod 644 "$1.new" && mv -f "$1.new" "$1" && exportfs -ra
}

# exports_remove FILE
exports_remove() { rm -f "$1" && { ! command -v exportfs >/dev/null || exportfs -ra; }; }

# mounted_probe FOLDER: "there", "absent", or "hung" where its server does not answer.
mounted_probe() {
  timeout -s KILL 20 [ -d "$1/." ]
  case $? in
    0) echo there ;;
    137) echo hung ;;
    *) echo absent ;;
  esac
}

# folders_probe FOLDER KEEPER NAME...: "w" where root may write; name, uid, mode and kind of each that is there; lines with "!": who
# could replace the folder, which KEEPER may own.
folders_probe() (
  cd "$1" 2>/dev/null || exit 0
  folder=$1 keeper=$2
  shift 2
  [ ! -w . ] || echo w
  LC_ALL=C stat -c '%n %u %a %F' -- "$@" 2>/dev/null || :
  held "$folder" "$(id -u "${keeper:-root}" 2>/dev/null || echo 0)" 2>&1 | sed 's/^/! /'
)

# root_folder_probe PATH: mode and owner; "absent"; or "!" and why others could replace it or what is in it.
root_folder_probe() (
  [ -e "$1" ] || [ -L "$1" ] || { echo absent; exit 0; }
  why=$(root_folder_parts "$1" 2>&1) || { echo "! $why"; exit 0; }
  stat -c '%a %U' -- "$1"
)

# root_folder_make PATH MODE: each part that is missing becomes root's; none that is there is given to root.
root_folder_make() (
  umask 022
  root_folder_parts "$1" mkdir && chmod "00$2" "$1"
)

# root_folder_parts PATH [mkdir]: fail where others could replace a part, or write to the last one. One stat of each part, which
# follows no link, has its kind and its owner: a user could exchange it between two.
root_folder_parts() (
  rest=${1#/} at=''
  no() { echo "$1" >&2; exit 1; }
  while [ -n "$rest" ]; do
    held "${at:-/}" "$(id -u)" || exit 1
    at=$at/${rest%%/*}
    case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
    [ "${2:-}" != mkdir ] || mkdir -m 0755 -- "$at" 2>/dev/null || [ -e "$at" ] || [ -L "$at" ] || no "$at cannot be made"
    state=$(LC_ALL=C stat -c '%u %F' -- "$at" 2>/dev/null) || no "$at cannot be read"
    [ "${state#* }" = directory ] || no "$at is a ${state#* }; every part of $1 must be a folder"
    [ "${state%% *}" = "$(id -u)" ] || [ "${state%% *}" = 0 ] ||
      no "$at belongs to $(stat -c %U -- "$at") and must be a folder of root: move it away, with what is in it"
  done
  case $(stat -c %A -- "$1") in ?????w*|????????w*) no "$1 belongs to root and others may write to it" ;; esac
)
