#!/bin/sh
# A user's own folders on shared storage, below root's. POSIX sh; it comes behind folder-checks.sh.
#
# Installed as: part of the programs that include it; else nowhere: sent before a script that calls them (inspect/slurm)
# Started by: the programs that include it
# Runs as: root; or the user, who makes none
# roof_make MOUNT TOP KIND USER MISSING: MOUNT/TOP/KIND/USER, as root; without root it must be there. mkdir may lose to another
# submission that makes the same folder; what is there then is checked.
roof_make() (
  user=$4 roof=$1 mine=$1/$2/$3/$4
  held "$1" "$(id -u "$user" 2>/dev/null || echo 0)" || exit 1
  if [ "$(id -u)" != 0 ] && [ ! -e "$mine" ] && [ ! -L "$mine" ]; then
    echo "$mine $5" >&2
    person_of_directory "$user" >&2
    exit 1
  fi
  for part in "$2" "$3"; do
    roof=$roof/$part
    [ -e "$roof" ] || mkdir -m 0755 "$roof" 2>/dev/null || [ -e "$roof" ] || mkdir "$roof" || exit 1
    roots "$roof" || exit 1
  done
  if [ ! -e "$mine" ] && [ ! -L "$mine" ]; then
    mkdir -m 0700 "$mine" && chown -h "$user:$(id -g "$user")" "$mine" || exit 1
  fi
  if [ -L "$mine" ] || [ ! -d "$mine" ] || [ "$(stat -c %u "$mine")" != "$(id -u "$user")" ]; then
    echo "$mine belongs to $(stat -c %U "$mine") and must be a folder of $user" >&2
    exit 1
  fi
  case $(stat -c %A "$mine") in ?????w* | ????????w*)
    echo "$mine belongs to $user and others may write to it" >&2
    exit 1
    ;;
  esac
)

# person_of_directory USER: prints that USER is one, on a node that knows people of a directory.
person_of_directory() {
  [ ! -e /usr/local/sbin/corral-directory-keys ] || getent -s files passwd "$1" >/dev/null 2>&1 ||
    echo "$1 is a person of the directory"
}
