#!/bin/sh
# Functions that read and write files, folders and links. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (state/files, state/packages, state/secrets, state/storage/exports)
# Runs as: root

# from_input: the next secret or file on standard input, sent as its length, a line feed and the bytes.
from_input() { IFS= read -r length && head -c "$length"; }

# place PATH OWNER MODE COMMAND...: what the command prints becomes the file, renamed into its place.
place() (
  path=$1 owner=$2 mode=$3
  shift 3
  mkdir -p "${path%/*}/" && new=$(mktemp "$path.corral.XXXXXX") && "$@" >"$new" &&
    chown "$owner" "$new" && chmod "$mode" "$new" && mv -f "$new" "$path" &&
    rm -f "$path".corral.??????
)

# file_write PATH OWNER MODE TEXT
file_write() { place "$1" "$2" "$3" printf %s "$4"; }

# file_write_in_place PATH OWNER MODE TEXT: for bind mounts, which cannot be renamed over (EBUSY).
file_write_in_place() {
  printf %s "$4" >"$1" && chown "$2" "$1" && chmod "$3" "$1"
}

# file_own PATH OWNER MODE
file_own() { chown "$2" "$1" && chmod "$3" "$1"; }

# files_read PATH...: once in front of all probes of a script. A program that is started takes 1 ms, a file more next to nothing.
files_read() {
  corral_modes="
$(stat -c '%a %U:%G  %n' -- "$@")
"
  for path in "$@"; do
    shift
    [ ! -f "$path" ] || set -- "$@" "$path"
  done
  [ $# = 0 ] || corral_sums="
$(sha256sum -- "$@")
"
}

# of_path PATH LINES: of_it is what is in front of the path in its line, "" where no line has it.
of_path() {
  case $2 in
    *"  $1
"*)
      of_it=${2%%"  $1
"*}
      of_it=${of_it##*"
"}
      ;;
    *) of_it= ;;
  esac
}

# mode_read PATH: mode is its mode and owner.
mode_read() {
  of_path "$1" "${corral_modes-}"
  mode=${of_it:-$(stat -c '%a %U:%G' "$1")}
}

# sum_read PATH: sum is its digest.
sum_read() {
  of_path "$1" "${corral_sums-}"
  sum=${of_it:-$(sha256sum <"$1")}
  sum=${sum%% *}
}

# file_probe PATH DIGEST MOST: digest, mode and owner; behind them MOST bytes in base64 where the digest is another.
file_probe() {
  [ -f "$1" ] || { echo absent; return; }
  sum_read "$1"
  mode_read "$1"
  echo "$sum $mode"
  [ "$sum" = "$2" ] || head -c "$3" "$1" | base64 -w0
}

# folder_probe PATH: mode and owner.
folder_probe() {
  [ -d "$1" ] || { echo absent; return; }
  mode_read "$1"
  echo "$mode"
}

# folder_make PATH OWNER MODE
folder_make() { mkdir -p "$1" && chown "$2" "$1" && chmod "$3" "$1"; }

# link_probe PATH: where it points to; "other" for what is not a link.
link_probe() {
  if [ -L "$1" ]; then readlink "$1"; elif [ -e "$1" ]; then echo other; else echo absent; fi
}

# is_there PATH, is_folder PATH: "there" or "absent".
is_there() { if [ -e "$1" ]; then echo there; else echo absent; fi; }
is_folder() { if [ -d "$1" ]; then echo there; else echo absent; fi; }

# parts_probe FOLDER MARK NAME...: name, digest, mode and owner of files of these names, or whose second line begins with MARK.
parts_probe() (
  folder=$1 mark=$2
  shift 2
  for file in "$folder"/*; do
    [ -f "$file" ] || continue
    name=${file##*/}
    case " $* " in
      *" $name "*) ;;
      *) sed -n 2p "$file" | grep -q "$mark" || continue ;;
    esac
    digest=$(sha256sum <"$file")
    printf '%s %s %s\n' "$name" "${digest%% *}" "$(stat -c '%a %U:%G' "$file")"
  done
)

# part_write PATH TEXT: under a name with a dot in it first, which the runner of parts leaves out.
part_write() {
  printf %s "$2" >"$1.new" && chown root:root "$1.new" && chmod 755 "$1.new" && mv -f "$1.new" "$1"
}

# complete_if_sum PATH DIGEST
complete_if_sum() {
  if [ "$(sha256sum <"$1" 2>/dev/null | cut -c 1-64)" = "$2" ]; then echo complete; else echo absent; fi
}

# artifact_check PATH DIGEST WHY: PATH.new takes its place, if it has the digest.
artifact_check() {
  [ "$(sha256sum <"$1.new" | cut -c 1-64)" = "$2" ] || {
    rm -f "$1.new"
    echo "$3" >&2
    return 1
  }
  mv -f "$1.new" "$1"
}

# artifact_receive PATH DIGEST WHY: from standard input.
artifact_receive() { mkdir -p "${1%/*}" && from_input >"$1.new" && artifact_check "$@"; }

# artifact_fetch PATH DIGEST WHY URL
artifact_fetch() {
  mkdir -p "${1%/*}" && curl -fsSL --retry 3 -o "$1.new" "$4" && artifact_check "$1" "$2" "$3"
}

# is_machine NAME WHY
is_machine() {
  [ -z "$1" ] || [ "$(uname -m)" = "$1" ] || {
    echo "$2" >&2
    return 1
  }
}

# artifact_receive_for MACHINE WHY_NOT PATH DIGEST WHY
artifact_receive_for() { is_machine "$1" "$2" && shift 2 && artifact_receive "$@"; }

# artifact_fetch_for MACHINE WHY_NOT PATH DIGEST WHY URL
artifact_fetch_for() { is_machine "$1" "$2" && shift 2 && artifact_fetch "$@"; }
