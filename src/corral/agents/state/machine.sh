#!/bin/sh
# Functions for a machine's name, clock, kernel modules and firewall. POSIX sh and awk.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (inspect/discovery, state/network/firewall, state/network/host_names, state/system/clock,
# state/system/kernel)
# Runs as: root, or who runs corral (own_name_lines, of the machine that corral runs on)
# shellcheck source=src/corral/agents/state/nvidia.sh
. state/nvidia.sh #include

# name_set NAME: the running one.
name_set() { hostname "$1" 2>/dev/null || printf %s "$1" >/proc/sys/kernel/hostname; }

# name_keep NAME FILE...: also from the next boot on; the files go. In place: /etc/hostname is a bind mount in
# containers.
name_keep() (
  name=$1
  shift
  printf '%s\n' "$name" >/etc/hostname && rm -f "$@" && { [ "$(uname -n)" = "$name" ] || name_set "$name"; }
)

# own_name_lines FILE: lines that give the machine's own name an address, with a domain or without.
own_name_lines() {
  awk -v n="$(uname -n)" '
    BEGIN { sub(/\..*/, "", n) }
    $1 !~ /^#/ { for (i = 2; i <= NF && $i !~ /^#/; i++) { split($i, p, "."); if (p[1] == n) { print; next } } }' "$1"
}

# hosts_probe FILE: digest of Corral's block, and lines that put the machine's own name on 127.x.
hosts_probe() {
  block=$(sed -n '/^# corral begin/,/^# corral end/p' "$1" | sha256sum)
  echo "${block%% *}"
  own_name_lines "$1" | awk '$1 ~ /^127\./'
}

# clock_state SECONDS: absent, unsynchronised, off (by more than these), good: by chronyc tracking (chronyc(1)): "System
# time : 0.000012 seconds slow of NTP time", "Leap status : Not synchronised". Never a figure: it would differ at
# each probe.
clock_state() {
  LC_ALL=C timeout 10 chronyc -n tracking 2>/dev/null | awk -F' *: *' -v limit="$1" '
    /^System time/ { split($2, a, " "); off = a[1] + 0 }
    /^Leap status/ { leap = $2 }
    END {
      if (leap == "") print "absent"
      else if (leap == "Not synchronised") print "unsynchronised"
      else if (off > limit) print "off"
      else print "good"
    }'
}

# clock_set NEAR LIMIT TRIES: within NEAR seconds, within LIMIT at the end. Counted, not timed: the clock itself jumps
# here. makestep sets it at once where chrony would need hours (chronyc(1)); it does nothing before a source is known.
clock_set() (
  i=0
  while [ "$i" -lt "$3" ]; do
    [ "$(clock_state "$1")" != good ] || exit 0
    [ $((i % 10)) -ne 3 ] || chronyc burst 4/4 >/dev/null 2>&1 || :
    [ $((i % 5)) -ne 4 ] || chronyc makestep >/dev/null 2>&1 || :
    sleep 1
    i=$((i + 1))
  done
  state=$(clock_state "$2")
  [ "$state" != good ] || exit 0
  echo "the clock is not within $2 s of its time source: $state" >&2
  chronyc -n tracking >&2
  chronyc -n sources >&2
  exit 1
)

# module_probe NAME FILE: "none" where the kernel has no such module; else loaded or out, kept or once.
module_probe() (
  modinfo "$1" >/dev/null 2>&1 || {
    echo none
    exit
  }
  folder=/sys/module/$(printf '%s\n' "$1" | tr - _)
  if [ -d "$folder" ]; then loaded=loaded; else loaded=out; fi
  if [ -e "$2" ]; then echo "$loaded kept"; else echo "$loaded once"; fi
)

# reboot_probe PACKAGES DRIVER: why a reboot is due, a word each; each argument is yes or no.
reboot_probe() {
  [ "$1" = no ] || [ ! -e /run/reboot-required ] || echo required
  [ "$2" = no ] || reboot_required_by_driver
}

# firewall_remove PROGRAM UNIT
firewall_remove() {
  "$1" remove
  systemctl disable -q --now corral-firewall.service 2>/dev/null
  rm -f "$2" && systemctl daemon-reload && rm -f "$1"
}
