#!/bin/sh
# The ledger's functions: what was on the machine is kept before Corral changes it. state/ledger.py
#
# Installed as: nowhere: sent to `sh -s` with the values in front
# Started by: corral (state/ledger), in the script of each stage and of a removal
# Runs as: root
L=/var/lib/corral
B=$L/before
corral_put() { # FILE: stdin becomes FILE, complete or not at all
  mkdir -p "${1%/*}" && cat > "$1.new" && mv -f "$1.new" "$1"
}
corral_note() { # LINE FILE: the file has the line
  grep -qxF -e "$1" "$2" 2>/dev/null && return
  { cat "$2" 2>/dev/null; printf '%s\n' "$1"; } | corral_put "$2"
}
corral_paths() {
  { find /etc; find /var /srv /opt -mindepth 1 -maxdepth 2; find /home -mindepth 1 -maxdepth 1
  } 2>/dev/null | sort
}
corral_packages() {
  dpkg-query -W -f '${db:Status-Status} ${binary:Package}\n' 2>/dev/null | sort
}
corral_names() { getent "$1" | cut -d: -f1 | sort; }
corral_open() { # CLUSTER
  if [ ! -e $L/cluster ]; then printf '%s\n' "$1" | corral_put $L/cluster || return 1; fi
  read -r c < $L/cluster
  if [ "$c" != "$1" ]; then
    echo "this machine belongs to cluster $c (its ledger: $L): release it with: corral down $c" >&2
    return 1
  fi
  if [ ! -e $B/paths ]; then
    mkdir -p $B && chmod 700 $B || return 1
    # Stamps without a ledger: an older Corral worked here, and what it changed is not known.
    [ ! -e $L/stamps ] || : > $B/late
    corral_names passwd | corral_put $B/users && corral_names group | corral_put $B/groups &&
      corral_packages | corral_put $B/packages && corral_paths | corral_put $B/paths || return 1
  fi
  corral_packages_close
}
corral_was() { # PATH: it was there before Corral's first change
  case $1 in
    /etc/*) q=$1 ;;
    /var/*/*|/srv/*/*|/opt/*/*) q=$(printf '%s\n' "$1" | cut -d/ -f1-4) ;;
    /var/*|/srv/*|/opt/*) q=$1 ;;
    /home/*) q=$(printf '%s\n' "$1" | cut -d/ -f1-3) ;;
    *) q= ;;
  esac
  if [ -n "$q" ]; then grep -qxF -e "$q" $B/paths || return 1; fi
  [ -e "$1" ] || [ -L "$1" ]
}
corral_keep_path() { # PATH
  d=$B/files$1
  rm -f "$d/.now"
  for f in .was .absent .dir; do if [ -e "$d/$f" ] || [ -L "$d/$f" ]; then return 0; fi; done
  mkdir -p "$d" || return 1
  if ! corral_was "$1"; then : > "$d/.absent"
  elif [ -d "$1" ]; then stat -c '%a %u:%g' "$1" | corral_put "$d/.dir"
  else rm -rf "$d/.new"; cp -a "$1" "$d/.new" && mv -f "$d/.new" "$d/.was"
  fi
}
corral_packages_close() {
  [ -e $L/packages.open ] || return 0
  t=$L/packages.tmp
  corral_packages | sed -n 's/^installed //p' > $t.p
  sed -n 's/^installed //p' $L/packages.open > $t.o
  for k in passwd group; do
    corral_names $k > $t.n
    case $k in passwd) f=users ;; *) f=groups ;; esac
    { cat $L/$f 2>/dev/null; comm -13 $L/$f.open $t.n; } | sort -u | corral_put $L/$f || return 1
  done
  { cat $L/packages 2>/dev/null; comm -13 $t.o $t.p; } | sort -u | corral_put $L/packages &&
    { cat $L/packages.gone 2>/dev/null; comm -23 $t.o $t.p; } | sort -u |
      corral_put $L/packages.gone && rm -f $L/packages.open && rm -f $L/*.open $t.*
}
corral_keep() { # HOW NAME
  case $1 in
    path) corral_keep_path "$2" ;;
    hosts) corral_keep_path /etc/hosts ;;
    hostname)
      corral_keep_path /etc/hostname && if [ ! -e $B/hostname ]; then
        uname -n | corral_put $B/hostname; fi ;;
    login)
      for k in users groups; do grep -qxF -e "$2" $B/$k || corral_note "$2" $L/$k || return 1; done
      [ -e "$B/logins/$2" ] || { grep -qxF -e "$2" $B/users && getent passwd "$2"
        } | corral_put "$B/logins/$2" ;;
    unit)
      [ -e "$B/units/$2" ] || systemctl show -p LoadState -p ActiveState -p UnitFileState \
        "$2.service" | corral_put "$B/units/$2" ;;
    packages)
      corral_names passwd | corral_put $L/users.open && corral_names group |
        corral_put $L/groups.open && corral_packages | corral_put $L/packages.open ;;
    postgres)
      [ -e "$B/postgres/$2" ] || {
        i=0
        until s=$(cd / && runuser -u postgres -- psql -X -Atqc "SELECT 'base ' || datname
          FROM pg_database UNION ALL SELECT 'role ' || rolname FROM pg_roles"); do
          i=$((i + 1)); [ "$i" -lt 120 ] || return 1; sleep 0.5; done
        { printf '%s\n' "$s" | grep -qxF -e "base $2" && echo owner || echo corral
          printf '%s\n' "$s" | grep -xF -e "role $2"; } | corral_put "$B/postgres/$2"; } ;;
    sql)
      [ -e "$B/sql/$2" ] || { s=$(mariadb -N -e 'SHOW DATABASES') || return 1
        { printf '%s\n' "$s" | grep -qxF -e "$2" && echo owner || echo corral
          mariadb -N -e "SELECT User FROM mysql.global_priv WHERE User='slurm'" | sed 's/^/user /'
        } | corral_put "$B/sql/$2"; } ;;
    mount)
      corral_keep_path /etc/fstab || return 1
      [ -e "$B/mounts$2/.was" ] || { grep -qF " $2 " /proc/mounts && echo owner || echo corral
        } | corral_put "$B/mounts$2/.was" ;;
    hold) [ -e "$B/holds/$2" ] || apt-mark showhold "$2" | corral_put "$B/holds/$2" ;;
  esac
}
corral_kept() { # HOW NAME, after the change
  case $1 in
    path) f=$2 ;;
    hosts) f=/etc/hosts ;;
    hostname) f=/etc/hostname ;;
    mount) f=/etc/fstab ;;
    packages) corral_packages_close; return ;;
    *) return 0 ;;
  esac
  if [ -f "$f" ]; then sha256sum < "$f" | corral_put "$B/files$f/.now"; fi
}
