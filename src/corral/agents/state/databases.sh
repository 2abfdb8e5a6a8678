#!/bin/sh
# Functions that make databases, and copy what an upgrade of Slurm changes. POSIX sh.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral (api/operations/restore, state/databases, state/slurm/accounts)
# Runs as: root

# ready_if COMMAND...: "ready" where it succeeds.
ready_if() { if "$@" >/dev/null 2>&1; then echo ready; else echo absent; fi; }

# postgres TEXT: a statement as the server's owner.
postgres() { runuser -u postgres -- psql -X -v ON_ERROR_STOP=1 -Atqc "$1"; }

# postgres_make NAME ROLE BASE CLOSE: by these statements; ROLE and BASE where there is none of the name.
postgres_make() (
  i=0
  until postgres 'SELECT 1' >/dev/null 2>&1; do
    i=$((i + 1))
    [ "$i" -lt 120 ] || {
      postgres 'SELECT 1'
      exit 1
    }
    sleep 0.5
  done
  postgres 'SELECT rolname FROM pg_roles' | grep -qxF "$1" || postgres "$2" || exit 1
  postgres 'SELECT datname FROM pg_database' | grep -qxF "$1" || postgres "$3" || exit 1
  postgres "$4"
)

# accounting_dump DATABASE FILE: slurmdbd is stopped for it, and starts when it is upgraded. Nothing where slurmdbd is
# installed and was never set up, as on a node's image: there is no database yet.
accounting_dump() (
  [ -e /etc/slurm/slurmdbd.conf ] || exit 0
  systemctl stop slurmdbd.service && dump=$(command -v mariadb-dump || echo mysqldump) &&
    "$dump" --single-transaction --databases "$1" | gzip -1 >"$2" &&
    gunzip -c "$2" | tail -n 1 | grep -q 'Dump completed'
)

# state_copy STATE TO: slurmctld is stopped for it, and starts again where it ran.
state_copy() (
  up=$(systemctl is-active slurmctld.service || :)
  systemctl stop slurmctld.service || exit 1
  cp -a "$1" "$2/state" && cp -a /etc/slurm "$2/etc"
  copied=$?
  [ "$up" != active ] || systemctl start slurmctld.service || exit 1
  exit $copied
)

# slurm_copy FOLDER MARK DATABASE STATE: accounting database ("" for none), StateSaveLocation and /etc/slurm. A large
# database takes longer than systemd waits for a start (upgrades.html).
slurm_copy() (
  new=$1.new unit=/run/systemd/system/slurmdbd.service.d
  umask 077
  rm -rf "$new" && mkdir -p "$new" && chmod 700 "${1%/*}" &&
    { [ -z "$3" ] || accounting_dump "$3" "$new/accounting.sql.gz"; } && state_copy "$4" "$new" &&
    : >"$new/$2" && sync && mv "$new" "$1" && mkdir -p "$unit" &&
    printf '[Service]\nTimeoutStartSec=infinity\n' >"$unit/corral-upgrade.conf"
)

# slurm_copy_once FOLDER MARK DATABASE STATE: nothing where there is a complete copy.
slurm_copy_once() { [ -e "$1/$2" ] || slurm_copy "$@"; }

# complete_if PATH
complete_if() { if [ -e "$1" ]; then echo complete; else echo absent; fi; }

# shown KIND COMMAND...: after a line that names it. Without slurm.conf a command looks for _slurmctld._tcp in the DNS:
# 5 s where none answers.
shown() {
  echo "@$1"
  shift
  [ -e /etc/slurm/slurm.conf ] || return 0
  timeout 10 "$@" 2>/dev/null
}

# accounts_probe QOS_FIELDS ASSOCIATIONS...: four lists; the last argument's words are the command for associations.
accounts_probe() (
  qos=$1
  shift
  shown assoc "$@"
  shown account sacctmgr -nP show account format=Account,Description
  shown user sacctmgr -nP show user format=User,DefaultAccount
  shown qos sacctmgr -nP show qos "format=$qos"
)
