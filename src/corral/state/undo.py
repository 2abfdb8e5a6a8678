"""Release of a machine: shell that undoes all that the ledger (``state.ledger``) knows. Pure.

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

from typing import Final

from corral.hosts.framing import Reports
from corral.hosts.quote import Script, join, sh
from corral.state.ledger import FUNCTIONS
from corral.state.mesh_supervised import STOP

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
