#!/bin/sh
# held PATH UID and roots PATH: fail, and name what others could replace.
#
# A path's folders from / on, links followed one by one: each must be root's (or the user's own, who
# then can replace only what is theirs), and where others may write to it the sticky bit lets nobody
# rename what is not theirs. A link's own owner counts too: in such a folder it may be replaced.
#
# Installed as: part of the programs that include it; else nowhere: sent before a script that calls them
# (state/storage/job_folders)
# Started by: corral; the programs that include it; batch scripts of jobs
# Runs as: root, or the user whose folder it is
# shellcheck disable=SC2046 # stat's three numbers are three words
held() (
  uid=$2 rest=$1 at='' links=0
  no() { echo "$1" >&2; exit 1; }
  inspect() {
    set -- "$1" $(LC_ALL=C stat -c '%u %U %a' -- "$1" 2>/dev/null)
    [ $# = 4 ] || no "$1 cannot be read"
    [ "$2" = 0 ] || [ "$2" = "$uid" ] || no "$1 belongs to $3, who can replace what is in it"
    mode=$4
  }
  while :; do
    inspect "${at:-/}"
    [ $((0$mode & 0022)) = 0 ] || [ $((0$mode & 01000)) != 0 ] ||
      no "${at:-/} is open to others (mode $mode) without the sticky bit: any of them can replace what is in it"
    while case $rest in /*) ;; *) false ;; esac; do rest=${rest#/}; done
    [ -n "$rest" ] || return 0
    part=${rest%%/*} rest=${rest#"${rest%%/*}"}
    case $part in .) continue ;; ..) at=${at%/*}; continue ;; esac
    if [ -L "$at/$part" ]; then
      inspect "$at/$part"
      links=$((links + 1))
      [ "$links" -le 40 ] || no "$at/$part is a loop of links"
      to=$(readlink -- "$at/$part") || no "$at/$part cannot be read"
      case $to in /*) at= ;; esac
      rest=$to$rest
    else
      at=$at/$part
    fi
  done
)
roots() {
  if [ -L "$1" ] || [ ! -d "$1" ] || [ "$(stat -c %u "$1")" != 0 ]; then
    echo "$1 belongs to $(stat -c %U "$1") and must be a folder of root" >&2
    return 1
  fi
  case $(stat -c %A "$1") in ?????w*|????????w*)
    echo "$1 belongs to root and others may write to it" >&2
    return 1
  esac
}
