#!/bin/sh
# Functions for the folder of slurmctld's state and for a backup controller. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (state/slurm/state_folder)
# Runs as: root

# state_used: StateSaveLocation of Corral's slurm.conf, of whose cluster the state is.
state_used() {
  case $(head -n 1 /etc/slurm/slurm.conf 2>/dev/null) in
    '# Written by Corral '*) sed -n 's/^StateSaveLocation=//p' /etc/slurm/slurm.conf ;;
  esac
}

# state_probe PATH STAMP: its mode and owner; then the folder in use, where that is another one. STAMP is there once
# slurmctld has started, which has written its state then.
state_probe() (
  stat -c '%a %U:%G' "$1" 2>/dev/null || echo absent
  used=$(state_used)
  if [ -n "$used" ] && [ "$used" != "$1" ] && { [ -e "$used/clustername" ] || [ -e "$2" ]; }; then echo "$used"; fi
)

# state_make PATH OWNER MODE
state_make() { mkdir -p "$1" && chown "$2" "$1" && chmod "$3" "$1"; }

# state_entries FOLDER COMMAND...: run for each entry of a state. The key of tokens stays on each
# controller's own disk.
state_entries() (
  cd "$1" || exit
  shift
  for entry in * .[!.]*; do
    case $entry in jwt_hs256.key | before-*) continue ;; esac
    [ ! -e "$entry" ] || "$@" "$entry" || exit
  done
)

# state_aside FOLDER ENTRY
state_aside() { mkdir -p "$1" && mv "$2" "$1/"; }

# state_copied FOLDER ENTRY
state_copied() { cp -a "$2" "$1/"; }

# movable FROM: the state is there, and no other slurmctld would go on with it.
movable() {
  [ -e "$1/clustername" ] || {
    echo "Slurm's state is not in $1: mount it again; without it every job would be forgotten" >&2
    return 1
  }
  case $(timeout 10 scontrol ping 2>/dev/null) in *'(backup'*' is UP'*)
    echo "the backup slurmctld still runs and would take over: first take slurm.backup_controller alone out of the file, with its node and storage left in, or stop slurmctld there" >&2
    return 1 ;;
  esac
}

# state_move FROM TO OWNER MODE: slurmctld stays stopped, its service starts it. After a crash the copy begins again.
state_move() {
  movable "$1" && systemctl stop slurmctld.service && state_make "$2" "$3" "$4" &&
    state_entries "$2" state_aside "$2/before-$(date +%s)" && state_entries "$1" state_copied "$2" && sync
}

# backup_probe MARK PATH
backup_probe() (
  [ -e "$1" ] && systemctl is-active -q slurmctld.service || exit 0
  if [ -z "$2" ] || [ "$(state_used)" != "$2" ]; then echo runs; fi
)

backup_stop() { systemctl stop slurmctld.service; }

# was_backup MARK
was_backup() { [ ! -e "$1" ] || echo was; }

# backup_end MARK STAMP
backup_end() {
  systemctl disable -q --now slurmctld.service && xargs -r rm -f <"$1" && rm -f "$2" "$1"
}
