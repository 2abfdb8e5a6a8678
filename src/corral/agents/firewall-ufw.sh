#!/bin/sh
# Without an argument: the cluster's ports are open; remove: no rule of its; check: open or closed.
# user.rules holds one line "### tuple ### allow tcp PORTS 0.0.0.0/0 any SOURCE in comment=HEX" per rule: so
# what is there is read without ufw's half second per call.
#
# Installed as: /usr/local/sbin/corral-firewall where ufw is on, behind a line with its values
# (state/network/firewall)
# Started by: corral-firewall.service; corral, to check
# Runs as: root
# shellcheck disable=SC2154 # the values are set in the line before it
there() { # lines: protocol ports source
  sed -n 's/^### tuple ### allow \(.*\) in comment=636f7272616c$/\1/p' /etc/ufw/user.rules |
    while read -r proto ports _ _ source; do echo "$proto $ports $source"; done | sort -u
}
desired() {
  [ "$1" != remove ] || return 0
  for source in $sources; do
    for ports in $tcp; do echo "tcp $ports $source"; done
    for ports in $udp; do echo "udp $ports $source"; done
  done | sort -u
}
t=$(mktemp -d) || exit 1
trap 'rm -rf "$t"' EXIT
there > "$t/there"; desired "$1" > "$t/wanted"
if [ "$1" = check ]; then cmp -s "$t/there" "$t/wanted" && echo open || echo closed; exit; fi
comm -23 "$t/there" "$t/wanted" | while read -r proto ports source; do
  ufw delete allow proto "$proto" from "$source" to any port "$ports" || exit 1
done && comm -13 "$t/there" "$t/wanted" | while read -r proto ports source; do
  ufw allow proto "$proto" from "$source" to any port "$ports" comment corral || exit 1
done
