#!/bin/sh
# Functions for folders that a machine serves by NFS, and for those that others mount. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (state/storage/exports, state/storage/job_folders)
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
