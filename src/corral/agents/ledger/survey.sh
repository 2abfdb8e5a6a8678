#!/bin/sh
# Read-only: what a release would do. Behind common.sh.
#
# Installed as: nowhere: sent to `sh -s` with the values in front
# Started by: corral (state/ledger), before it asks whether to remove the cluster
# Runs as: root
# shellcheck disable=SC2013 # names of accounts have no blanks
[ ! -e "$B"/late ] || report kept 'what Corral did here before it kept a ledger: that is not known'
for u in $(units); do
  [ "$(was "$u" ActiveState)" = active ] || ! systemctl -q is-active "$u" || report would "stop $u"
done
for n in $(sqls) $(postgreses); do report would "drop database $n, which Corral made"; done
markers | while IFS= read -r m; do
  d=${m%/*}; p=${d#"$B"/files}
  case ${m##*/} in
    .absent) if [ -e "$p" ] || [ -L "$p" ]; then report would "remove $p"; fi ;;
    .was) same "$p" "$m" || report would "put back $p" ;;
    .dir) [ "$(stat -c '%a %u:%g' "$p" 2>/dev/null)" = "$(cat "$m")" ] ||
      report would "put back mode and owner of $p" ;;
  esac
  if changed "$d" "$p" && [ "$p" != /etc/hosts ]; then
    report kept "$p.corral-kept: somebody changed $p since"; fi
done
p=$(ours | tr '\n' ' '); [ -z "$p" ] || report would "purge ${p% }"
[ ! -s "$L"/packages.gone ] || report would "install again $(tr '\n' ' ' < "$L"/packages.gone)"
for u in $(cat "$L"/users 2>/dev/null); do
  ! getent passwd "$u" >/dev/null || report would "remove user $u"; done
if [ -e "$B"/hostname ] && [ "$(uname -n)" != "$(cat "$B"/hostname)" ]; then
  report would "host name $(cat "$B"/hostname)"; fi
report would "remove $L"
