#!/bin/sh
# Release, last step: what purging left, accounts, host name, and services as they were.
#
# Installed as: nowhere: sent to `sh -s` with the values in front
# Started by: corral (state/ledger), once it is confirmed
# Runs as: root
# shellcheck disable=SC2013,SC2046 # names of accounts and packages have no blanks
# shellcheck disable=SC2015 # A && B || C: C also where B fails
# What purging left of folders that were not there before, and what it took of the owner's.
for d in /etc/slurm /var/spool/slurmd /var/spool/slurmctld /var/log/slurm /var/lib/slurm \
  /etc/munge /var/lib/munge /var/log/munge /etc/chrony /var/lib/chrony /var/log/chrony \
  $(serves_others mariadb || echo /etc/mysql /var/lib/mysql /var/log/mysql) \
  $(serves_others postgresql || echo /etc/postgresql /etc/postgresql-common \
    /var/lib/postgresql /var/log/postgresql /var/cache/postgresql); do
  if [ -d "$d" ] && ! grep -qxF -e "$d" "$B"/paths && ! dpkg -S "$d" >/dev/null 2>&1; then
    rm -rf "$d" && report did "removed $d"; fi
done
PASS=2 restore
needed() { # USER or group: of a package that is kept
  for p in $(cat "$L"/packages.kept 2>/dev/null); do
    if grep -sqw -e "$1" "/var/lib/dpkg/info/$p.postinst" "/var/lib/dpkg/info/$p.preinst" \
      $(dpkg -L "$p" 2>/dev/null | grep /sysusers.d/); then return 0; fi
  done
  return 1
}
for u in $(cat "$L"/users 2>/dev/null); do
  e=$(getent passwd "$u") && ! needed "$u" || continue
  h=$(printf '%s\n' "$e" | cut -d: -f6)
  if [ -d "$h" ] && [ "$PURGE" = no ] && ! grep -qxF -e "$h" "$B"/paths; then
    case $h in /home/*) report kept "$h: the files of $u";; esac; fi
  # A daemon whose program is gone already.
  if [ "$(id -u "$u")" -lt 1000 ]; then
    stat -c '%U %n' /proc/[0-9]* 2>/dev/null | sed -n "s|^$u /proc/||p" | xargs -r kill -9; fi
  r=; if [ "$PURGE" = yes ] && case $h in /home/*) true;; *) false;; esac; then r=-r; fi
  userdel $r "$u" >&2 && report did "removed user $u" || { report left "user $u"; : > "$L"/failed; }
done
# The people's group (corral.state.system.users) comes with the first of them.
for g in $(cat "$L"/groups 2>/dev/null) corral-people; do
  ! getent group "$g" >/dev/null || grep -qxF -e "$g" "$B"/groups || needed "$g" ||
    groupdel "$g" >&2 || { report left "group $g"; : > "$L"/failed; }
done
for f in "$B"/logins/*; do
  [ -s "$f" ] || continue
  u=${f##*/}; o=$(cut -d: -f3,4 "$f")
  [ "$(getent passwd "$u" | cut -d: -f3,4)" = "$o" ] || {
    groupmod -g "${o#*:}" "$u" && usermod -u "${o%:*}" -g "${o#*:}" "$u" && report did "ids of $u"; }
done
if [ -e "$B"/hostname ] && [ "$(uname -n)" != "$(cat "$B"/hostname)" ]; then
  n=$(cat "$B"/hostname)
  { hostname "$n" 2>/dev/null || printf %s "$n" > /proc/sys/kernel/hostname; } &&
    report did "host name $n"; fi
if [ -d "$B"/files/etc/ssh/sshd_config.d/00-corral.conf ]; then
  if here ssh; then u=ssh; else u=sshd; fi
  systemctl try-reload-or-restart $u.service && report did "sshd takes passwords as before"
fi
systemctl daemon-reload
# Daemons of the owner's that read files put back just now.
[ ! -e "$B"/files/etc/exports.d ] || ! command -v exportfs >/dev/null || exportfs -ra
[ ! -e "$B"/files/etc/ssh ] || systemctl -q try-reload-or-restart ssh
for u in $(units); do
  ! serves_others "$u" || continue
  if ! here "$u"; then systemctl reset-failed "$u" 2>/dev/null; continue; fi
  case $(was "$u" UnitFileState) in
    enabled) systemctl -q enable "$u" ;; disabled) systemctl -q disable "$u" ;;
    masked) systemctl -q mask "$u" ;;
  esac
  case $(was "$u" ActiveState) in
    active) systemctl restart "$u" && report did "restarted $u as it was" ||
      { report left "$u, which ran before, does not start"; : > "$L"/failed; } ;;
  esac
done
[ ! -e "$L"/failed ]
