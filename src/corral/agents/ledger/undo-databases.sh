#!/bin/sh
# Release, second step: databases that Corral made, dumped unless PURGE is yes.
#
# Installed as: nowhere: sent to `sh -s` with the values in front
# Started by: corral (state/ledger), once it is confirmed
# Runs as: root
# shellcheck disable=SC2034 # OTHERS and PG_OTHERS are for serves_others of common.sh
OTHERS=
PG_OTHERS=
as_postgres() { ( cd / && runuser -u postgres -- "$@" ); }
for n in $(sqls); do
  command -v mariadb >/dev/null || continue
  systemctl -q is-active mariadb || systemctl start mariadb || exit 1
  d=$(mariadb -N -e 'SHOW DATABASES') || exit 1
  if printf '%s\n' "$d" | grep -qxF -e "$n"; then
    if [ "$PURGE" = no ]; then
      f=/var/backups/corral-$CLUSTER-$(date +%Y%m%d-%H%M%S).sql
      mkdir -p /var/backups && ( umask 077; mariadb-dump --single-transaction "$n" > "$f".new ) &&
        gzip -f "$f".new && mv -f "$f".new.gz "$f".gz || exit 1
      report kept "$f.gz: all accounting records"
    fi
    mariadb -e "DROP DATABASE \`$n\`" && report did "dropped database $n" || exit 1
  fi
  grep -qx 'user slurm' "$B"/sql/"$n" || mariadb -e "DROP USER IF EXISTS 'slurm'@'localhost'" || exit 1
done
for n in $(postgreses); do
  command -v psql >/dev/null || continue
  systemctl -q is-active postgresql || systemctl start postgresql || exit 1
  d=$(as_postgres psql -X -Atqc 'SELECT datname FROM pg_database') || exit 1
  if printf '%s\n' "$d" | grep -qxF -e "$n"; then
    if [ "$PURGE" = no ]; then
      f=/var/backups/corral-$CLUSTER-$n-$(date +%Y%m%d-%H%M%S).sql
      mkdir -p /var/backups && ( umask 077; as_postgres pg_dump "$n" > "$f".new ) &&
        gzip -f "$f".new && mv -f "$f".new.gz "$f".gz || exit 1
      report kept "$f.gz: all of the database $n"
    fi
    as_postgres psql -X -qc "DROP DATABASE \"$n\" WITH (FORCE)" && report did "dropped database $n" ||
      exit 1
  fi
  grep -qx "role $n" "$B"/postgres/"$n" ||
    as_postgres psql -X -qc "DROP ROLE IF EXISTS \"$n\"" || exit 1
done
# Purging postgresql-NN drops all that its clusters hold (postrm_purge_data is yes by default).
if [ -d "$B"/postgres ] && command -v psql >/dev/null && systemctl -q is-active postgresql; then
  PG_OTHERS=$( { as_postgres psql -X -Atqc "SELECT datname FROM pg_database
      WHERE NOT datistemplate AND datname <> 'postgres'" || echo unknown
    d=$(pg_lsclusters -h) || echo unknown
    printf '%s\n' "$d" | awk 'NF && $2 != "main" { print "cluster " $1 "/" $2 }'; } | tr '\n' ' ')
fi
if [ -d "$B"/sql ] && systemctl -q is-active mariadb; then
  # A server that does not answer holds others, for all that is known: its packages stay.
  OTHERS=$( { mariadb -N -e 'SHOW DATABASES' || echo unknown; } |
    grep -vxE 'information_schema|mysql|performance_schema|sys' | tr '\n' ' ')
fi
for u in $(units); do
  ! serves_others "$u" || continue
  [ "$(was "$u" ActiveState)" = active ] || ! systemctl -q is-active "$u" ||
    { systemctl stop "$u" && report did "stopped $u" || exit 1; }
  case $(was "$u" UnitFileState) in
    enabled*|static|indirect|alias|generated) ;;
    *) ! here "$u" || systemctl -q disable "$u" 2>/dev/null ;;
  esac
done
