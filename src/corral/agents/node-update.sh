#!/bin/sh
# Functions that update the packages of a node's system and show how far that is. POSIX sh and awk.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (api/lifecycle/node_updates, apply/roll, inspect/system)
# Runs as: root
# shellcheck source=src/corral/agents/state/packages.sh
. state/packages.sh #include

# boot_mark: another one after each boot. A container's kernel is the host's: there it is the start of its first process.
boot_mark() { echo "$(cat /proc/sys/kernel/random/boot_id) $(sed 's/.*) //' /proc/1/stat | cut -d' ' -f20)"; }

# failed_units
failed_units() { systemctl list-units --failed --plain --no-legend 2>/dev/null | awk '{ print $1 }' | sort; }

# upgrade OPTION...: all that is not held; new packages where one needs them (kernels), none goes.
upgrade() { apt-get upgrade -q --with-new-pkgs -o DPkg::Lock::Timeout=300 "$@"; }

# update_probe MARK: lines "package NAME" of what is to be upgraded, "reboot" where packages ask for one; "begun" for an update
# that has not ended (MARK is there), "rebooted" where that was before this boot and dpkg left nothing half done. -f: what an
# interrupted dpkg left is fixed by update_run, and does not fail here.
update_probe() (
  apt_update || exit 1
  simulated=$(upgrade -s -f) || {
    [ -e "$1" ] || exit 1
    echo begun
    exit 0
  }
  printf '%s\n' "$simulated" | sed -n 's/^Inst \([^ ]*\).*/package \1/p'
  [ ! -e /run/reboot-required ] || echo reboot
  [ -e "$1" ] || exit 0
  echo begun
  [ "$(head -n 1 "$1")" = "$(boot_mark)" ] || [ -n "$(dpkg --audit 2>&1)" ] || echo rebooted
)

# update_run MARK: MARK gets this boot, and the units that failed before the update. What a killed run left half done is done
# first. Services get their new files with the boot that comes next.
update_run() (
  failed=$(if [ -e "$1" ]; then sed 1d "$1"; else failed_units; fi)
  mkdir -p "${1%/*}" && printf '%s\n' "$(boot_mark)" "$failed" >"$1.new" && mv -f "$1.new" "$1" && without_starts update_get
)

update_get() {
  { dpkg --force-confdef --force-confold --configure -a || :; } >&2
  upgrade -y -f -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold >&2
}

# update_units MARK: fails with the units that fail now and did not before the update.
update_units() (
  timeout 180 systemctl is-system-running --wait >/dev/null 2>&1
  # Not by -v: awk would read the backslashes in units' names.
  new=$(failed_units | known=$(sed 1d "$1") awk 'index("\n" ENVIRON["known"] "\n", "\n" $0 "\n") == 0' | paste -sd ' ' -)
  [ -z "$new" ] || {
    echo "failed since the update: $new" >&2
    exit 1
  }
)

# update_over MARK
update_over() { rm -f "$1"; }
