#!/bin/sh
# Release, fourth step: packages that came with Corral go, those that it removed are installed again.
#
# Installed as: nowhere: sent to `sh -s` with the values in front
# Started by: corral (state/ledger), once it is confirmed
# Runs as: root
# shellcheck disable=SC2013 # names of packages have no blanks
# shellcheck disable=SC2015 # A && B || C: C also where B fails
for f in "$B"/holds/*; do
  [ -e "$f" ] && [ ! -s "$f" ] && apt-mark -q unhold "${f##*/}" >/dev/null; done
P=$(ours; half)
stays() { # TITLE UNIT PACKAGES DATABASES
  serves_others "$2" && printf '%s\n' "$P" | grep -qE "^$2(-server|-[0-9])" || return 0
  report kept "$1: it holds other databases: $4"
  for p in $(printf '%s\n' "$P" | grep -E "$3"); do corral_note "$p" "$L"/packages.kept; done
  systemctl restart "$2" && systemctl -q enable "$2" 2>/dev/null || exit 1
  P=$(printf '%s\n' "$P" | grep -vE "$3")
}
stays MariaDB mariadb '^(mariadb|galera|libmariadb|mysql)' "$OTHERS"
stays PostgreSQL postgresql '^(postgresql|libpq)' "$PG_OTHERS"
if [ -n "$P" ]; then
  # A boot starts what packages enabled, and munge's does not stop it on its removal (seen): its
  # user could not be removed then, and purging fails.
  # shellcheck disable=SC2086 # a list
  for u in $(dpkg -L $P 2>/dev/null | sed -n 's|.*/systemd/system/\([^/@]*\.service\)$|\1|p'); do
    ! systemctl -q is-active "$u" || systemctl stop "$u" >&2; done
  # What the owner had removed but not purged keeps its files; all else is purged.
  sed -n 's/^config-files //p' "$B"/packages > "$L"/tmp.c
  R=$(printf '%s\n' "$P" | grep -xFf "$L"/tmp.c); P=$(printf '%s\n' "$P" | grep -vxFf "$L"/tmp.c)
  rm -f "$L"/tmp.c
  apt-get -qq -o DPkg::Lock::Timeout=300 check >/dev/null 2>&1
  # dpkg and not apt: apt would also remove what the owner installed on top of these.
  # shellcheck disable=SC2086 # lists
  { [ -z "$R" ] || dpkg --remove $R >&2; [ -z "$P" ] || dpkg --purge $P >&2; }
  for p in $P $R; do
    if corral_packages | grep -qxF -e "installed $p"; then
      report kept "package $p: other packages need it"; corral_note "$p" "$L"/packages.kept
      # dpkg --purge that is refused leaves "purge" behind as what is wanted.
      printf '%s install\n' "$p" | dpkg --set-selections
    else report did "purged $p"; fi
  done
fi
G=; for p in $(cat "$L"/packages.gone 2>/dev/null); do
  corral_packages | grep -qxF -e "installed $p" || G="$G $p"; done
if [ -n "$G" ]; then
  # shellcheck disable=SC2086 # a list
  apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 $G >&2 &&
    report did "installed again$G" || { report left "not installed again:$G"; : > "$L"/failed; }
fi
