#!/bin/sh
# Writes Corral's block into the hosts file at $path, and takes the machine's own name off 127.x.
# Renamed over the old file where that works; in containers /etc/hosts may be a bind mount, which cannot
# be renamed over (EBUSY, F65): written in place there.
#
# Installed as: /usr/local/sbin/corral-hosts where cloud-init is, behind a line with its values; sent elsewhere
# (state/network/host_names)
# Started by: corral; corral-hosts.service, at each boot behind cloud-init
# Runs as: root
# shellcheck disable=SC2154 # path and block are set in the line before it
t=$(mktemp "$path.corral.XXXXXX") && chmod 644 "$t" && {
  sed '/^# corral begin/,/^# corral end/d' "$path" | awk -v n="$(uname -n)" '
    BEGIN { sub(/\..*/, "", n) }
    $1 !~ /^127\./ { print; next }
    {
      keep = $1; own = 0
      for (i = 2; i <= NF; i++) {
        if (substr($i, 1, 1) == "#") break
        split($i, p, ".")
        if (p[1] == n) own = 1; else keep = keep "\t" $i
      }
      if (!own) print; else if (keep != $1) print keep
    }'
  printf '%s\n' "$block"
} > "$t" && { mv -f "$t" "$path" 2>/dev/null || cat "$t" > "$path"; }
s=$?
rm -f "$path".corral.??????
exit $s
