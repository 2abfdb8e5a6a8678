#!/bin/sh
# Release, third step: files and folders as they were; defines `restore`, which undo-accounts.sh calls again.
#
# Installed as: nowhere: sent to `sh -s` with the values in front
# Started by: corral (state/ledger), once it is confirmed
# Runs as: root
# shellcheck disable=SC2044 # mount points have no blanks: fstab
upwards() { # folders that were made for this path, when they are empty
  d=${1%/*}
  while [ -n "$d" ] && [ -d "$d" ] && ! grep -qxF -e "$d" "$B"/paths; do
    case $d in /etc/*|/var/*/*) rmdir "$d" 2>/dev/null || return 0 ;; *) return 0 ;; esac
    d=${d%/*}
  done
}
aside() { # DIR PATH
  ! changed "$1" "$2" || { cp -a "$2" "$2.corral-kept" &&
    report kept "$2.corral-kept: somebody changed $2 since"; }
}
hosts() { # WAS: as it was, then lines that somebody added since; what they took away stays away
  awk 'FILENAME == ARGV[1] { was[$0]; line[++n] = $0; for (i = 2; i <= NF; i++) has[$1, $i]; next }
    /^# corral begin/, /^# corral end/ { next }
    { now[$0]; ours = /^127\./; for (i = 2; i <= NF; i++) if (!(($1, $i) in has)) ours = 0 }
    !ours && !($0 in was) { more = more $0 "\n" }
    END { for (i = 1; i <= n; i++) if (line[i] ~ /^127\./ || line[i] in now) print line[i]
      printf "%s", more }' "$1" /etc/hosts > "$L"/tmp.h && cat "$L"/tmp.h > /etc/hosts; rm -f "$L"/tmp.h
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
        elif [ "$PURGE" = yes ]; then rm -rf --one-file-system "$2"
        else rmdir "$2" 2>/dev/null; fi ;;
    esac
    if [ -d "$2" ]; then [ $PASS = 1 ] || report kept "folder $2: it is in use"
    else report did "removed $2"; fi
  elif [ -e "$2" ] || [ -L "$2" ]; then
    aside "$1" "$2"; rm -f "$2" && report did "removed $2" || return 1
  fi
  upwards "$2"
}
restore() {
  markers | while IFS= read -r m; do
    d=${m%/*}; p=${d#"$B"/files}
    case ${m##*/} in
      .absent) gone "$d" "$p" ;;
      .was) if same "$p" "$m"; then :
        elif [ "$p" = /etc/hosts ] && changed "$d" "$p"; then hosts "$m" && rm -f "$d/.was"
        else aside "$d" "$p"; put_back "$m" "$p" && report did "put back $p"; fi ;;
      .dir) [ "$(stat -c '%a %u:%g' "$p" 2>/dev/null)" = "$(cat "$m")" ] ||
        { read -r a o < "$m"; mkdir -p "$p" && chown "$o" "$p" && chmod "$a" "$p" &&
          report did "put back mode and owner of $p"; } ;;
    esac || { report left "$p"; : > "$L"/failed; }
  done
}
! [ -x /usr/local/sbin/corral-firewall ] || /usr/local/sbin/corral-firewall remove
for f in $(find "$B"/mounts -name .was 2>/dev/null); do
  p=${f%/.was}; p=${p#"$B"/mounts}
  if grep -qx corral "$f" && grep -qF " $p " /proc/mounts; then
    umount "$p" && report did "unmounted $p" || exit 1; fi
done
PASS=1 restore
