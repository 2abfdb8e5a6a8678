"""The ledger of what a machine was before Corral, and the shell that restores it. Pure.

Every change's script runs between ``keeping`` and ``kept``. What is kept follows from the change's
resource id (``Change.keeps``): ``file:/etc/hosts`` keeps that file, ``packages:slurm`` keeps the
list of packages, and so on. ``state.ledger`` restores it all (docs/decisions/0022).

In /var/lib/corral:

* ``cluster``: the cluster the machine belongs to; another cluster's changes are refused.
* ``before/paths``, ``packages``, ``users``, ``groups``: all that was there when Corral's first
  change began. A path that is there is the owner's.
* ``before/files/PATH/``: ``.was``, the original with owner and mode; or ``.absent``; or ``.dir``,
  a folder's mode and owner. ``.now`` is the digest of what Corral wrote: another one means that
  somebody else wrote there since.
* ``before/units/UNIT``, ``before/logins/NAME``, ``before/sql/NAME``,
  ``before/postgres/NAME``, ``before/hostname``.
* ``packages``, ``packages.gone``, ``users``, ``groups``: what came and went in Corral's own runs of
  apt; ``packages.open`` is there while one is under way, so a crash in one loses nothing.

Each file is made under another name and renamed, so it is complete or not there.

Release of a machine: shell that undoes all that the ledger (``state.ledger``) knows.

Four scripts, run one after the other on a machine: ``survey`` lists what would be done, ``undo``
does it, ``leftovers`` compares with the machine's first inventory, ``close`` removes the ledger.
Each may be run again after a crash at any point. They answer with reports (``hosts.framing``)
``WORD TEXT``:

* ``would``/``did``: a thing undone.
* ``kept``: a thing left there on purpose, and why.
* ``left``: a thing of Corral's that is still there: the ledger stays, and undo is run again.
* ``new``: a path that was not there before; it may be the owner's.
* ``none``: the machine has no ledger, so nothing of Corral's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from corral.hosts.framing import Reports
from corral.hosts.quote import Script, join, sh
from corral.state.mesh import STOP

FOLDER: Final = "/var/lib/corral"

KEPT_AS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "file": "path",
        "secret": "path",
        "directory": "path",
        "hosts": "hosts",
        "hostname": "hostname",
        "user": "login",
        "service": "unit",
        "packages": "packages",
        "database": "sql",
        "postgres": "postgres",
        "mount": "mount",
        "hold": "hold",
        "stopped": "unit",
        "debs": "packages",
        "pyenv": "path",
        # In slurmdbd, so in the database that is dropped; or in the ledger's own folder.
        **dict.fromkeys(("slurm-accounts", "backup", "members"), ""),
        # What they touch is in their changes' ``keeps``, or undo knows it by name.
        **dict.fromkeys(("ports", "exports", "parts", "sshd-adopt", "logins", "holds"), ""),
        **dict.fromkeys(("former-mounts", "former-people", "mesh", "supervised", "timer"), ""),
        # Shared storage is data: what jobs wrote stays.
        "job-folders": "",
        # They leave nothing behind.
        **dict.fromkeys(("leaving", "no-controller", "resume", "reboot", "clock", "existing"), ""),
    }
)
"""What keeps the state before a change of each kind of resource; "" for what needs no keeping."""

FUNCTIONS: Final = Script(
    r"""
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
    echo "this machine belongs to cluster $c (its ledger: $L): corral down $c gives it back" >&2
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
corral_was() { # PATH: it stood there before Corral's first change
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
""".strip()
)
"""Shell functions of the ledger; POSIX sh with the tools of any Debian. The unquoted folder names
are literals."""


def keeping(keeps: Sequence[str]) -> Script:
    """Shell that keeps what is there before a change, once and for all; cheap the second time."""
    return _each(keeps, sh("corral_keep"))


def kept(keeps: Sequence[str]) -> Script:
    """Shell that notes, after a change, what Corral left there."""
    return _each(keeps, sh("corral_kept"))


def _each(keeps: Sequence[str], function: Script) -> Script:
    calls: list[Script] = []
    for keep in keeps:
        kind, _, name = keep.partition(":")
        how = KEPT_AS.get(kind, "")
        if how:
            calls.append(sh("{f} {how} {name}", f=function, how=how, name=name))
    return join(calls, " && ") if calls else sh(":")


_COMMON: Final = Script(
    r"""
say() { printf '%s %s %s\n' "$REPORT" "$1" "$2"; }
[ -d $B ] || { say none 'no ledger: nothing of Corral'; exit 0; }
read -r CLUSTER < $L/cluster
# Unit, and what it was: load state, active state, unit file state.
units() { for f in $B/units/*; do [ ! -e "$f" ] || echo "${f##*/}"; done; }
was() { sed -n "s/^$2=//p" "$B/units/$1"; }
here() { systemctl cat "$1.service" >/dev/null 2>&1; }
ours() { # packages that came in Corral's runs and are there now
  [ ! -e $L/packages ] || corral_packages | sed -n 's/^installed //p' | comm -12 $L/packages -
}
half() { # those of them that were removed, and not purged
  [ ! -e $L/packages ] || corral_packages | sed -n 's/^config-files //p' | comm -12 $L/packages - |
    while read -r p; do grep -qxF -e "config-files $p" $B/packages || printf '%s\n' "$p"; done
}
markers() { find $B/files -depth \( -name .was -o -name .absent -o -name .dir \) 2>/dev/null; }
changed() { # DIR PATH: somebody else wrote there since
  [ -f "$2" ] && [ -f "$1/.now" ] && [ "$(sha256sum < "$2")" != "$(cat "$1/.now")" ]
}
same() { # PATH WAS
  if [ -L "$1" ] || [ -L "$2" ]; then [ "$(readlink "$1")" = "$(readlink "$2")" ]; return; fi
  cmp -s "$1" "$2" && [ "$(stat -c '%a %u:%g' "$1")" = "$(stat -c '%a %u:%g' "$2")" ]
}
postgreses() { for f in $B/postgres/*; do
  [ ! -e "$f" ] || ! grep -qx corral "$f" || echo "${f##*/}"; done; }
serves_others() { # UNIT: a server that holds more than what Corral made (_DATABASE looks)
  case $1 in mariadb) [ -n "$OTHERS" ] ;; postgresql) [ -n "$PG_OTHERS" ] ;; *) false ;; esac
}
sqls() { for f in $B/sql/*; do [ ! -e "$f" ] || ! grep -qx corral "$f" || echo "${f##*/}"; done; }
""".strip()
)

_SURVEY: Final = Script(
    r"""
[ ! -e $B/late ] || say kept 'what Corral did here before it kept a ledger: that is not known'
for u in $(units); do
  [ "$(was $u ActiveState)" = active ] || ! systemctl -q is-active $u || say would "stop $u"
done
for n in $(sqls) $(postgreses); do say would "drop database $n, which Corral made"; done
markers | while IFS= read -r m; do
  d=${m%/*}; p=${d#$B/files}
  case ${m##*/} in
    .absent) if [ -e "$p" ] || [ -L "$p" ]; then say would "remove $p"; fi ;;
    .was) same "$p" "$m" || say would "put back $p" ;;
    .dir) [ "$(stat -c '%a %u:%g' "$p" 2>/dev/null)" = "$(cat "$m")" ] ||
      say would "put back mode and owner of $p" ;;
  esac
  if changed "$d" "$p" && [ "$p" != /etc/hosts ]; then
    say kept "$p.corral-kept: somebody changed $p since"; fi
done
p=$(ours | tr '\n' ' '); [ -z "$p" ] || say would "purge ${p% }"
[ ! -s $L/packages.gone ] || say would "install again $(tr '\n' ' ' < $L/packages.gone)"
for u in $(cat $L/users 2>/dev/null); do
  ! getent passwd "$u" >/dev/null || say would "remove user $u"; done
if [ -e $B/hostname ] && [ "$(uname -n)" != "$(cat $B/hostname)" ]; then
  say would "host name $(cat $B/hostname)"; fi
say would "remove $L"
""".strip()
)

_STOP: Final = Script(
    r"""
for t in /etc/systemd/system/corral-*.timer; do
  [ ! -e "$t" ] || systemctl stop "${t##*/}" || exit 1; done
# Slurm's daemons first. A unit that ran before Corral came runs on until the end.
for u in slurmrestd slurmd slurmctld slurmdbd; do
  if [ -e $B/units/$u ] && systemctl -q is-active $u; then
    systemctl stop $u && say did "stopped $u" || exit 1; fi
done
if [ -e $B/units/slurmd ]; then
  # slurmd's unit leaves slurmstepd behind (KillMode=process); on cgroup v2 also "slurmstepd
  # infinity" in a separate scope (cgroup_v2.html).
  for s in $(systemctl list-units --plain --no-legend '*slurmstepd.scope' | cut -d' ' -f1); do
    systemctl stop "$s"; done
  for c in /proc/[0-9]*/comm; do
    if [ "$(cat "$c" 2>/dev/null)" = slurmstepd ]; then
      c=${c#/proc/}; kill "${c%%/*}" 2>/dev/null; fi
  done
fi
""".strip()
)

_DATABASE: Final = Script(
    r"""
OTHERS=
PG_OTHERS=
as_postgres() { ( cd / && runuser -u postgres -- "$@" ); }
for n in $(sqls); do
  command -v mariadb >/dev/null || continue
  systemctl -q is-active mariadb || systemctl start mariadb || exit 1
  if mariadb -N -e 'SHOW DATABASES' | grep -qxF -e "$n"; then
    if [ $PURGE = no ]; then
      f=/var/backups/corral-$CLUSTER-$(date +%Y%m%d-%H%M%S).sql
      mkdir -p /var/backups && ( umask 077; mariadb-dump --single-transaction "$n" > $f.new ) &&
        gzip -f $f.new && mv -f $f.new.gz $f.gz || exit 1
      say kept "$f.gz: all accounting records"
    fi
    mariadb -e "DROP DATABASE \`$n\`" && say did "dropped database $n" || exit 1
  fi
  grep -qx 'user slurm' $B/sql/$n || mariadb -e "DROP USER IF EXISTS 'slurm'@'localhost'" || exit 1
done
for n in $(postgreses); do
  command -v psql >/dev/null || continue
  systemctl -q is-active postgresql || systemctl start postgresql || exit 1
  if as_postgres psql -X -Atqc 'SELECT datname FROM pg_database' | grep -qxF -e "$n"; then
    if [ $PURGE = no ]; then
      f=/var/backups/corral-$CLUSTER-$n-$(date +%Y%m%d-%H%M%S).sql
      mkdir -p /var/backups && ( umask 077; as_postgres pg_dump "$n" > $f.new ) &&
        gzip -f $f.new && mv -f $f.new.gz $f.gz || exit 1
      say kept "$f.gz: all of the database $n"
    fi
    as_postgres psql -X -qc "DROP DATABASE \"$n\" WITH (FORCE)" && say did "dropped database $n" ||
      exit 1
  fi
  grep -qx "role $n" $B/postgres/$n ||
    as_postgres psql -X -qc "DROP ROLE IF EXISTS \"$n\"" || exit 1
done
# Purging postgresql-NN drops all that its clusters hold (postrm_purge_data is yes by default).
if [ -d $B/postgres ] && command -v psql >/dev/null && systemctl -q is-active postgresql; then
  PG_OTHERS=$( { as_postgres psql -X -Atqc "SELECT datname FROM pg_database
      WHERE NOT datistemplate AND datname <> 'postgres'" || echo unknown
    pg_lsclusters -h | awk '$2 != "main" { print "cluster " $1 "/" $2 }'; } | tr '\n' ' ')
fi
if [ -d $B/sql ] && systemctl -q is-active mariadb; then
  OTHERS=$(mariadb -N -e 'SHOW DATABASES' |
    grep -vxE 'information_schema|mysql|performance_schema|sys' | tr '\n' ' ')
fi
for u in $(units); do
  ! serves_others $u || continue
  [ "$(was $u ActiveState)" = active ] || ! systemctl -q is-active $u ||
    { systemctl stop $u && say did "stopped $u" || exit 1; }
  case $(was $u UnitFileState) in
    enabled*|static|indirect|alias|generated) ;;
    *) ! here $u || systemctl -q disable $u 2>/dev/null ;;
  esac
done
""".strip()
)

_FILES: Final = Script(
    r"""
upwards() { # folders that were made for this path, when they are empty
  d=${1%/*}
  while [ -n "$d" ] && [ -d "$d" ] && ! grep -qxF -e "$d" $B/paths; do
    case $d in /etc/*|/var/*/*) rmdir "$d" 2>/dev/null || return 0 ;; *) return 0 ;; esac
    d=${d%/*}
  done
}
aside() { # DIR PATH
  ! changed "$1" "$2" || { cp -a "$2" "$2.corral-kept" &&
    say kept "$2.corral-kept: somebody changed $2 since"; }
}
hosts() { # WAS: as it was, then lines that somebody added since; what they took away stays away
  awk 'FILENAME == ARGV[1] { was[$0]; line[++n] = $0; for (i = 2; i <= NF; i++) has[$1, $i]; next }
    /^# corral begin/, /^# corral end/ { next }
    { now[$0]; ours = /^127\./; for (i = 2; i <= NF; i++) if (!(($1, $i) in has)) ours = 0 }
    !ours && !($0 in was) { more = more $0 "\n" }
    END { for (i = 1; i <= n; i++) if (line[i] ~ /^127\./ || line[i] in now) print line[i]
      printf "%s", more }' "$1" /etc/hosts > $L/tmp.h && cat $L/tmp.h > /etc/hosts; rm -f $L/tmp.h
}
put_back() { # WAS PATH; a bind mount such as a container's /etc/hosts cannot be renamed over (F65)
  mkdir -p "${2%/*}" && cp -a "$1" "$2.corral-new" &&
    { mv -f "$2.corral-new" "$2" 2>/dev/null || { cat "$1" > "$2" && rm -f "$2.corral-new" &&
      chmod "$(stat -c %a "$1")" "$2" && chown "$(stat -c %u:%g "$1")" "$2"; }; }
}
gone() { # DIR PATH
  if [ -d "$2" ] && [ ! -L "$2" ]; then
    case $2 in
      /opt/corral|/opt/corral/*|/etc/slurm|/etc/slurm/*|/var/spool/slurm*|/var/log/slurm*|/var/lib/slurm*)
        rm -rf --one-file-system "$2" ;;
      *) if grep -qF " $2" /proc/mounts; then :
        elif [ $PURGE = yes ]; then rm -rf --one-file-system "$2"
        else rmdir "$2" 2>/dev/null; fi ;;
    esac
    if [ -d "$2" ]; then [ $PASS = 1 ] || say kept "folder $2: it is in use"
    else say did "removed $2"; fi
  elif [ -e "$2" ] || [ -L "$2" ]; then
    aside "$1" "$2"; rm -f "$2" && say did "removed $2" || return 1
  fi
  upwards "$2"
}
restore() {
  markers | while IFS= read -r m; do
    d=${m%/*}; p=${d#$B/files}
    case ${m##*/} in
      .absent) gone "$d" "$p" ;;
      .was) if same "$p" "$m"; then :
        elif [ "$p" = /etc/hosts ] && changed "$d" "$p"; then hosts "$m" && rm -f "$d/.was"
        else aside "$d" "$p"; put_back "$m" "$p" && say did "put back $p"; fi ;;
      .dir) [ "$(stat -c '%a %u:%g' "$p" 2>/dev/null)" = "$(cat "$m")" ] ||
        { read -r a o < "$m"; mkdir -p "$p" && chown "$o" "$p" && chmod "$a" "$p" &&
          say did "put back mode and owner of $p"; } ;;
    esac || { say left "$p"; : > $L/failed; }
  done
}
! [ -x /usr/local/sbin/corral-firewall ] || /usr/local/sbin/corral-firewall remove
for f in $(find $B/mounts -name .was 2>/dev/null); do
  p=${f%/.was}; p=${p#$B/mounts}
  if grep -qx corral "$f" && grep -qF " $p " /proc/mounts; then
    umount "$p" && say did "unmounted $p" || exit 1; fi
done
PASS=1 restore
""".strip()
)

_PACKAGES: Final = Script(
    r"""
for f in $B/holds/*; do
  [ -e "$f" ] && [ ! -s "$f" ] && apt-mark -q unhold "${f##*/}" >/dev/null; done
P=$(ours; half)
stays() { # TITLE UNIT PACKAGES DATABASES
  serves_others $2 && printf '%s\n' "$P" | grep -qE "^$2(-server|-[0-9])" || return 0
  say kept "$1: it holds other databases: $4"
  for p in $(printf '%s\n' "$P" | grep -E "$3"); do corral_note "$p" $L/packages.kept; done
  systemctl restart $2 && systemctl -q enable $2 2>/dev/null || exit 1
  P=$(printf '%s\n' "$P" | grep -vE "$3")
}
stays MariaDB mariadb '^(mariadb|galera|libmariadb|mysql)' "$OTHERS"
stays PostgreSQL postgresql '^(postgresql|libpq)' "$PG_OTHERS"
if [ -n "$P" ]; then
  # A boot starts what packages enabled, and munge's does not stop it on its removal (seen): its
  # user could not be removed then, and purging fails.
  for u in $(dpkg -L $P 2>/dev/null | sed -n 's|.*/systemd/system/\([^/@]*\.service\)$|\1|p'); do
    ! systemctl -q is-active "$u" || systemctl stop "$u" >&2; done
  # What the owner had removed but not purged keeps its files; all else is purged.
  sed -n 's/^config-files //p' $B/packages > $L/tmp.c
  R=$(printf '%s\n' "$P" | grep -xFf $L/tmp.c); P=$(printf '%s\n' "$P" | grep -vxFf $L/tmp.c)
  rm -f $L/tmp.c
  apt-get -qq -o DPkg::Lock::Timeout=300 check >/dev/null 2>&1
  # dpkg and not apt: apt would also remove what the owner installed on top of these.
  [ -z "$R" ] || dpkg --remove $R >&2
  [ -z "$P" ] || dpkg --purge $P >&2
  for p in $P $R; do
    if corral_packages | grep -qxF -e "installed $p"; then
      say kept "package $p: other packages need it"; corral_note "$p" $L/packages.kept
      # dpkg --purge that is refused leaves "purge" behind as what is wanted.
      printf '%s install\n' "$p" | dpkg --set-selections
    else say did "purged $p"; fi
  done
fi
G=; for p in $(cat $L/packages.gone 2>/dev/null); do
  corral_packages | grep -qxF -e "installed $p" || G="$G $p"; done
if [ -n "$G" ]; then
  apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 $G >&2 &&
    say did "installed again$G" || { say left "not installed again:$G"; : > $L/failed; }
fi
""".strip()
)

_REST: Final = Script(
    r"""
# What purging left of folders that were not there before, and what it took of the owner's.
for d in /etc/slurm /var/spool/slurmd /var/spool/slurmctld /var/log/slurm /var/lib/slurm \
  /etc/munge /var/lib/munge /var/log/munge /etc/chrony /var/lib/chrony /var/log/chrony \
  $(serves_others mariadb || echo /etc/mysql /var/lib/mysql /var/log/mysql) \
  $(serves_others postgresql || echo /etc/postgresql /etc/postgresql-common \
    /var/lib/postgresql /var/log/postgresql /var/cache/postgresql); do
  if [ -d $d ] && ! grep -qxF -e $d $B/paths && ! dpkg -S $d >/dev/null 2>&1; then
    rm -rf $d && say did "removed $d"; fi
done
PASS=2 restore
needed() { # USER or group: of a package that is kept
  for p in $(cat $L/packages.kept 2>/dev/null); do
    if grep -sqw -e "$1" "/var/lib/dpkg/info/$p.postinst" "/var/lib/dpkg/info/$p.preinst" \
      $(dpkg -L "$p" 2>/dev/null | grep /sysusers.d/); then return 0; fi
  done
  return 1
}
for u in $(cat $L/users 2>/dev/null); do
  e=$(getent passwd "$u") && ! needed "$u" || continue
  h=$(printf '%s\n' "$e" | cut -d: -f6)
  if [ -d "$h" ] && [ $PURGE = no ] && ! grep -qxF -e "$h" $B/paths; then
    case $h in /home/*) say kept "$h: the files of $u";; esac; fi
  # A daemon whose program is gone already.
  if [ "$(id -u "$u")" -lt 1000 ]; then
    stat -c '%U %n' /proc/[0-9]* 2>/dev/null | sed -n "s|^$u /proc/||p" | xargs -r kill -9; fi
  r=; if [ $PURGE = yes ] && case $h in /home/*) true;; *) false;; esac; then r=-r; fi
  userdel $r "$u" >&2 && say did "removed user $u" || { say left "user $u"; : > $L/failed; }
done
# The people's group (state.person) comes with the first of them.
for g in $(cat $L/groups 2>/dev/null) corral-people; do
  ! getent group "$g" >/dev/null || grep -qxF -e "$g" $B/groups || needed "$g" ||
    groupdel "$g" >&2 || { say left "group $g"; : > $L/failed; }
done
for f in $B/logins/*; do
  [ -s "$f" ] || continue
  u=${f##*/}; o=$(cut -d: -f3,4 "$f")
  [ "$(getent passwd "$u" | cut -d: -f3,4)" = "$o" ] || {
    groupmod -g "${o#*:}" "$u" && usermod -u "${o%:*}" -g "${o#*:}" "$u" && say did "ids of $u"; }
done
if [ -e $B/hostname ] && [ "$(uname -n)" != "$(cat $B/hostname)" ]; then
  n=$(cat $B/hostname)
  { hostname "$n" 2>/dev/null || printf %s "$n" > /proc/sys/kernel/hostname; } &&
    say did "host name $n"; fi
if [ -d $B/files/etc/ssh/sshd_config.d/00-corral.conf ]; then
  if here ssh; then u=ssh; else u=sshd; fi
  systemctl try-reload-or-restart $u.service && say did "sshd takes passwords as before"
fi
systemctl daemon-reload
# Daemons of the owner's that read files put back just now.
[ ! -e $B/files/etc/exports.d ] || ! command -v exportfs >/dev/null || exportfs -ra
[ ! -e $B/files/etc/ssh ] || systemctl -q try-reload-or-restart ssh
for u in $(units); do
  ! serves_others $u || continue
  if ! here $u; then systemctl reset-failed $u 2>/dev/null; continue; fi
  case $(was $u UnitFileState) in
    enabled) systemctl -q enable $u ;; disabled) systemctl -q disable $u ;;
    masked) systemctl -q mask $u ;;
  esac
  case $(was $u ActiveState) in
    active) systemctl restart $u && say did "restarted $u as it was" ||
      { say left "$u, which ran before, does not start"; : > $L/failed; } ;;
  esac
done
[ ! -e $L/failed ]
""".strip()
)

_LEFTOVERS: Final = Script(
    r"""
corral_paths > $L/tmp.a
comm -13 $B/paths $L/tmp.a > $L/tmp.n
# A new folder stands for all that is in it.
awk 'NR == FNR { new[$0]; next } { p = $0; sub(/\/[^\/]*$/, "", p); if (!(p in new)) print }' \
  $L/tmp.n $L/tmp.n | while IFS= read -r p; do
  case $p in
    /var/lib/corral|/var/backups/*|*.corral-kept|/etc/*-|/etc/.pwd.lock|/etc/ld.so.cache) ;;
    /var/log/*|/var/cache/*|/var/tmp/*|/var/lib/apt/*|/var/lib/dpkg/*|/var/lib/systemd/*) ;;
    /home/*) ;;
    *) dpkg -S "$p" >/dev/null 2>&1 || say new "$p" ;;
  esac
done
comm -23 $B/paths $L/tmp.a | while IFS= read -r p; do
  case $p in /etc/*-|/var/log/*|/var/cache/*|/var/tmp/*|/var/lib/apt/*|/var/lib/dpkg/*) ;;
    /var/lib/systemd/*|/var/backups/*) ;; *) say new "$p is gone" ;; esac; done
rm -f $L/tmp.a $L/tmp.n
for p in $(ours); do grep -qxF -e "$p" $L/packages.kept 2>/dev/null || say left "package $p"; done
for u in $(cat $L/users 2>/dev/null); do
  ! getent passwd $u >/dev/null || [ -s $L/packages.kept ] || say left "user $u"; done
for s in slurmctld slurmd slurmdbd slurmrestd; do
  [ "$(was $s ActiveState 2>/dev/null)" = active ] || ! systemctl -q is-active $s ||
    say left "$s runs"
done
""".strip()
)


def survey(reports: Reports) -> Script:
    """Read-only: what ``undo`` would do."""
    return join([_reporting(reports), FUNCTIONS, _COMMON, _SURVEY])


def _reporting(reports: Reports) -> Script:
    return sh("REPORT={mark}", mark=reports.mark)


def undo(reports: Reports, *, purge: bool) -> Script:
    """Undo all but the ledger itself.

    Args:
        reports: what its lines begin with.
        purge: also what users may miss: home folders of users that Corral made, folders that are
            not empty, and no dump of the accounting database.
    """
    head = sh(
        "exec 9>/run/corral.lock; flock -w 60 9 || exit 75; umask 022; cd /; "
        "export DEBIAN_FRONTEND=noninteractive; PURGE={purge}",
        purge="yes" if purge else "no",
    )
    begin = Script("rm -f $L/failed; corral_packages_close")
    parts = (_COMMON, begin, STOP, _STOP, _DATABASE, _FILES, _PACKAGES, _REST)
    return join([_reporting(reports), head, FUNCTIONS, *parts])


def leftovers(reports: Reports) -> Script:
    """Read-only but for scratch files in the ledger: what of Corral's is still there."""
    return join([_reporting(reports), FUNCTIONS, _COMMON, _LEFTOVERS])


def close() -> Script:
    """Remove the ledger; the machine is its owner's."""
    return sh("rm -rf /var/lib/corral /run/corral.lock && [ ! -e /var/lib/corral ]")
