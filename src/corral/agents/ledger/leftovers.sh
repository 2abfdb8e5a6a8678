#!/bin/sh
# Read-only but for scratch files in the ledger: what of Corral's is still there.
#
# Installed as: nowhere: sent to `sh -s` with the values in front
# Started by: corral (state/ledger), after the undo programs
# Runs as: root
# shellcheck disable=SC2013 # names of accounts have no blanks
corral_paths > "$L"/tmp.a
comm -13 "$B"/paths "$L"/tmp.a > "$L"/tmp.n
# A new folder stands for all that is in it.
awk 'NR == FNR { new[$0]; next } { p = $0; sub(/\/[^\/]*$/, "", p); if (!(p in new)) print }' \
  "$L"/tmp.n "$L"/tmp.n | while IFS= read -r p; do
  case $p in
    /var/lib/corral|/var/backups/*|*.corral-kept|/etc/*-|/etc/.pwd.lock|/etc/ld.so.cache) ;;
    /var/log/*|/var/cache/*|/var/tmp/*|/var/lib/apt/*|/var/lib/dpkg/*|/var/lib/systemd/*) ;;
    /home/*) ;;
    *) dpkg -S "$p" >/dev/null 2>&1 || report new "$p" ;;
  esac
done
comm -23 "$B"/paths "$L"/tmp.a | while IFS= read -r p; do
  case $p in /etc/*-|/var/log/*|/var/cache/*|/var/tmp/*|/var/lib/apt/*|/var/lib/dpkg/*) ;;
    /var/lib/systemd/*|/var/backups/*) ;; *) report new "$p is gone" ;; esac; done
rm -f "$L"/tmp.a "$L"/tmp.n
for p in $(ours); do grep -qxF -e "$p" "$L"/packages.kept 2>/dev/null || report left "package $p"; done
for u in $(cat "$L"/users 2>/dev/null); do
  ! getent passwd "$u" >/dev/null || [ -s "$L"/packages.kept ] || report left "user $u"; done
for s in slurmctld slurmd slurmdbd slurmrestd; do
  [ "$(was $s ActiveState 2>/dev/null)" = active ] || ! systemctl -q is-active $s ||
    report left "$s runs"
done
