#!/bin/sh
# What the programs of a release share; behind keep.sh, REPORT begins each of their lines.
#
# Installed as: nowhere: sent to `sh -s` with the values in front
# Started by: corral (state/ledger), before survey.sh, the undo programs and leftovers.sh
# Runs as: root
# shellcheck disable=SC2034 # CLUSTER is for undo-databases.sh
report() { printf '%s %s %s\n' "$REPORT" "$1" "$2"; }
[ -d "$B" ] || { report none 'no ledger: nothing of Corral'; exit 0; }
read -r CLUSTER < "$L"/cluster
# Unit, and what it was: load state, active state, unit file state.
units() { for f in "$B"/units/*; do [ ! -e "$f" ] || echo "${f##*/}"; done; }
was() { sed -n "s/^$2=//p" "$B/units/$1"; }
here() { systemctl cat "$1.service" >/dev/null 2>&1; }
ours() { # packages that came in Corral's runs and are there now
  [ ! -e "$L"/packages ] || corral_packages | sed -n 's/^installed //p' | comm -12 "$L"/packages -
}
half() { # those of them that were removed, and not purged
  [ ! -e "$L"/packages ] || corral_packages | sed -n 's/^config-files //p' | comm -12 "$L"/packages - |
    while read -r p; do grep -qxF -e "config-files $p" "$B"/packages || printf '%s\n' "$p"; done
}
markers() { find "$B"/files -depth \( -name .was -o -name .absent -o -name .dir \) 2>/dev/null; }
changed() { # DIR PATH: somebody else wrote there since
  [ -f "$2" ] && [ -f "$1/.now" ] && [ "$(sha256sum < "$2")" != "$(cat "$1/.now")" ]
}
same() { # PATH WAS
  if [ -L "$1" ] || [ -L "$2" ]; then [ "$(readlink "$1")" = "$(readlink "$2")" ]; return; fi
  cmp -s "$1" "$2" && [ "$(stat -c '%a %u:%g' "$1")" = "$(stat -c '%a %u:%g' "$2")" ]
}
postgreses() { for f in "$B"/postgres/*; do
  [ ! -e "$f" ] || ! grep -qx corral "$f" || echo "${f##*/}"; done; }
serves_others() { # UNIT: a server that holds more than what Corral made (_DATABASE looks)
  case $1 in mariadb) [ -n "$OTHERS" ] ;; postgresql) [ -n "$PG_OTHERS" ] ;; *) false ;; esac
}
sqls() { for f in "$B"/sql/*; do [ ! -e "$f" ] || ! grep -qx corral "$f" || echo "${f##*/}"; done; }
