#!/bin/sh
# Functions that make and change users of a machine, services' and people. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (state/system/users)
# Runs as: root

# refuse TEXT
refuse() { echo "$1" >&2; return 1; }

# user_probe NAME UID: entries of both, of users and then of groups.
user_probe() {
  echo passwd
  getent passwd "$1" "$2"
  echo group
  getent group "$1" "$2"
}

# user_make NAME UID HOME SHELL COMMAND OPTION...: its group by COMMAND, groupadd or groupmod; useradd's options.
user_make() (
  name=$1 uid=$2 home=$3 shell=$4 group=$5
  shift 5
  "$group" -g "$uid" "$name" && useradd "$@" -u "$uid" -g "$uid" -d "$home" -s "$shell" "$name"
)

# user_renumber NAME UID COMMAND
user_renumber() { "$3" -g "$2" "$1" && usermod -u "$2" -g "$2" "$1"; }

# service_files_move UID GID NEW UNIT... -- FOLDER...: the units are stopped, and their files get the new number.
service_files_move() (
  uid=$1 gid=$2 new=$3
  shift 3
  while [ "$1" != -- ]; do
    systemctl stop "$1.service" 2>/dev/null || :
    shift
  done
  shift
  for folder in "$@"; do
    [ ! -e "$folder" ] || {
      find "$folder" -xdev -uid "$uid" -exec chown -h "$new" {} + &&
        find "$folder" -xdev -gid "$gid" -exec chgrp -h "$new" {} +
    } || exit 1
  done
)

# home_of NAME
home_of() { getent passwd "$1" | cut -d: -f6; }

# person_probe NAME UID HOME GROUP: as user_probe, then home, its owner, digest of Corral's block of keys, day of
# the login's end, member of the group, shell. The home itself is looked at, nothing in it: root of an NFS
# client may not enter it.
person_probe() (
  name=$1
  user_probe "$name" "$2"
  echo state
  # The last words of an entry are taken off by the shell: cut would be a program more for each.
  entry=$(getent passwd "$name") home=${entry%:*}
  home=${home##*:}
  home=${home:-$3}
  owner=$(timeout -s KILL 20 stat -L -c %u "$home" 2>/dev/null)
  keys=$(timeout -s KILL 20 runuser -u "$name" -- \
    sed -n '/^# corral begin/,/^# corral end/p' "$home/.ssh/authorized_keys" 2>/dev/null | sha256sum)
  ends=$(login_end "$name")
  member=no members=$(getent group "$4")
  case ",${members##*:}," in *",$name,"*) member=yes ;; esac
  echo "$home|${owner:-absent}|${keys%% *}|$ends|$member|${entry##*:}"
)

# person_make NAME UID HOME SHELL GROUP COMMAND: with a group of that name and number, by groupadd or, where
# it is there, by nothing (:).
person_make() {
  groupadd -f -r "$5" && "$6" -g "$2" "$1" &&
    useradd -M -u "$2" -g "$2" -G "$5" -d "$3" -s "$4" "$1" && [ -x "$4" ]
}

# person_modify NAME HOME SHELL
person_modify() { [ -x "$3" ] && usermod -d "$2" -s "$3" "$1"; }

# person_join NAME GROUP
person_join() { groupadd -f -r "$2" && gpasswd -a "$1" "$2"; }

# person_unlock NAME: usermod -U refuses to unlock into an empty password: such a user has keys only.
person_unlock() { usermod -e '' "$1" && { usermod -U "$1" 2>/dev/null || :; }; }

# home_make HOME UID: made under another name and renamed, so that a crash leaves no half home.
home_make() (
  home=$1 new=$1.corral-new
  [ ! -d "$home" ] || exit 0
  mkdir -p "${home%/*}/" && rm -rf "$new" && mkdir -m 700 "$new" &&
    { [ ! -d /etc/skel ] || cp -RT /etc/skel "$new"; } && chown -R "$2:$2" "$new" && chmod 700 "$new" &&
    mv -T "$new" "$home"
)

# home_shared HOME TEXT: another machine makes it.
home_shared() { [ -d "$1" ] || refuse "$2"; }

# keys_write BLOCK: into this user's own file. sshd's StrictModes wants the modes.
keys_write() (
  umask 077
  keys=.ssh/authorized_keys
  cd && mkdir -p .ssh && {
    [ ! -f $keys ] || sed '/^# corral begin/,/^# corral end/d' $keys
    printf %s "$1"
  } >$keys.corral && mv -f $keys.corral $keys
)

# as_person NAME SCRIPT: run as the user, so no link in the home leads root anywhere. Several machines may
# write to one shared home at once: a second try meets no half file.
as_person() {
  runuser -u "$1" -- env HOME="$(home_of "$1")" sh -c "$2" || runuser -u "$1" -- env HOME="$(home_of "$1")" sh -c "$2"
}

# login_end NAME: the day, the field before the last.
login_end() {
  end=$(getent shadow "$1")
  end=${end%:*}
  echo "${end##*:}"
}

# members_end GROUP: members, with the day their login ends.
members_end() (
  members=$(getent group "$1") IFS=,
  for name in ${members##*:}; do
    echo "$name $(login_end "$name")"
  done
)

# logins_end NAME...
logins_end() (
  for name in "$@"; do usermod -L -e 1 "$name" || exit 1; done
)
