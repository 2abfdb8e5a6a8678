#!/bin/sh
# Functions that mount, unmount, and keep Corral's lines in /etc/fstab. POSIX sh and awk.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (inspect/storage, state/storage/fstab)
# Runs as: root

# holders PATH: who keeps a mount busy, by name and number; without psmisc's fuser, which may not be there.
holders() {
  find /proc/[0-9]*/cwd /proc/[0-9]*/root /proc/[0-9]*/exe /proc/[0-9]*/fd -maxdepth 1 -type l \
    \( -lname "$1" -o -lname "$1/*" \) 2>/dev/null | cut -d/ -f3 | sort -un | head -n 20 |
    while read -r process; do echo "$(cat "/proc/$process/comm" 2>/dev/null) ($process)"; done | tr '\n' ' '
}

# mounted_from PATH: the source of what is mounted there, "" for nothing.
mounted_from() { awk -v p="$1" '$2 == p && $3 != "autofs" { m = $1 } END { print m }' /proc/mounts; }

# same_folder A B
same_folder() { [ "$(stat -c %d:%i "$1/." 2>/dev/null)" = "$(stat -c %d:%i "$2/." 2>/dev/null)" ]; }

# source_of PATH BOUND: as mounted_from. A bind mount shows its file system's device as source: the
# folder itself, BOUND, is compared; "" for a mount of another kind.
source_of() (
  source=$(mounted_from "$1")
  if [ -n "$2" ] && [ -n "$source" ] && same_folder "$1" "$2"; then source=$2; fi
  echo "$source"
)

# unmount PATH: all that is mounted there, and its automount.
unmount() {
  while [ -n "$(mounted_from "$1")" ]; do
    umount "$1" || { echo "$1 is in use by: $(holders "$1")" >&2; return 1; }
  done
  systemctl -q stop "$(systemd-escape -p --suffix=automount "$1")" 2>/dev/null || :
}

# fstab_without PATH: its text without Corral's lines for a path.
fstab_without() {
  [ ! -e /etc/fstab ] ||
    awk -v p="$1" '!($1 !~ /^#/ && $2 == p && $4 ~ /(^|,)x-corral(,|$)/)' /etc/fstab
}

# fstab_write: standard input becomes the file. Two changes of one machine never run at once (the stage's
# lock), so one temporary name is enough.
fstab_write() {
  cat >/etc/fstab.corral && chmod 644 /etc/fstab.corral && mv -f /etc/fstab.corral /etc/fstab
}

# mount_probe PATH BOUND: can it automount, lines of fstab in base64, what is mounted, does it answer, are files there.
mount_probe() (
  path=$1 bound=$2 auto=plain answer=ok holds=empty
  if grep -qw autofs /proc/filesystems || modprobe -nq autofs4; then auto=auto; fi
  lines=$(awk -v p="$path" '$1 !~ /^#/ && $2 == p' /etc/fstab | base64 -w0)
  kind=$(timeout -s KILL 20 stat -f -c %T "$path" 2>&1)
  case "$? $kind" in
    0*) ;;
    137*) answer=hung ;;
    *[Ss]tale*) answer=stale ;;
    *"Permission denied"*) answer=refused ;;
    *) answer=error ;;
  esac
  source=$(source_of "$path" "$bound")
  if [ -z "$source" ] && [ -d "$path" ] && [ -n "$(timeout -s KILL 20 ls -A "$path" 2>/dev/null)" ]; then
    holds=holds
  fi
  echo "$auto ${lines:--} ${source:--} $answer $holds"
)

# fstab_put PATH LINE
fstab_put() { { fstab_without "$1"; printf '%s\n' "$2"; } | fstab_write && systemctl daemon-reload; }

# mount_answers PATH SOURCE BOUND: fails with what is mounted. The first access makes an automount mount it.
mount_answers() (
  mounted=
  if timeout -s KILL 180 stat -f "$1" >/dev/null; then mounted=$(source_of "$1" "$3"); fi
  [ "$mounted" = "$2" ] || {
    echo "$1 does not answer as $2: found ${mounted:-nothing mounted}" >&2
    exit 1
  }
)

# mount_line PATH SOURCE BOUND LINE: only the line of fstab; it is mounted as it should be.
mount_line() (
  [ -d "$1" ] || mkdir -p "$1" || exit 1
  fstab_put "$1" "$4" && mount_answers "$1" "$2" "$3"
)

# mount_again PATH SOURCE BOUND LINE: what is there goes, and it is mounted.
mount_again() (
  path=$1 line=$4
  unmount "$path" || exit 1
  [ -d "$path" ] || mkdir -p "$path" || exit 1
  fstab_put "$path" "$line" || exit 1
  case $line in
    *x-systemd.automount*) systemctl restart "$(systemd-escape -p --suffix=automount "$path")" || exit 1 ;;
    *) timeout -s KILL 180 mount "$path" || exit 1 ;;
  esac
  mount_answers "$path" "$2" "$3"
)

# mount_dead PATH SOURCE BOUND LINE: one whose server does not answer.
mount_dead() {
  umount -l "$1" 2>/dev/null
  mount_again "$@"
}

# mount_if_dead PATH SOURCE BOUND LINE: the server may be back, or serve it again since the stage before this one.
mount_if_dead() { timeout -s KILL 20 stat -f "$1" >/dev/null 2>&1 || mount_dead "$@"; }

# former_probe FSTAB: its lines of Corral's, in base64; without the mount that has Slurm's state in use, which moves first.
former_probe() (
  used=$(sed -n 's/^StateSaveLocation=//p' /etc/slurm/slurm.conf 2>/dev/null)
  awk -v used="$used/" '$1 !~ /^#/ && $4 ~ /(^|,)x-corral(,|$)/ && index(used, $2 "/") != 1' "$1" | base64 -w0
)

# mounts_end PATH...: each is unmounted and leaves fstab.
mounts_end() (
  for path in "$@"; do
    unmount "$path" || exit 1
    fstab_without "$path" | fstab_write && systemctl daemon-reload || exit 1
    rmdir "$path" 2>/dev/null || :
  done
)
