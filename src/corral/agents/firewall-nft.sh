#!/bin/sh
# Without an argument: the cluster's ports are open; remove: no rule of its; check: open or closed.
# A packet passes when no chain of the hook drops it: an accept in a separate table would not help (nft(8),
# verdicts). So the rules go first in every input chain that filters, tagged by a comment.
#
# Installed as: /usr/local/sbin/corral-firewall where nftables is on, behind a line with its values
# (state/network/firewall)
# Started by: corral-firewall.service; corral, to check
# Runs as: root
# shellcheck disable=SC2154 # the values are set in the line before it
chains() { # lines: family table chain, of what filters incoming packets; then ours with handle
  nft -a list ruleset | awk '
    $1 == "table" { family = $2; table = $3 }
    $1 == "chain" { chain = $2 }
    /type filter hook input / && (family == "inet" || family == "ip") {
      print "chain", family, table, chain }
    /comment "corral-[0-9a-f]*"/ {
      match($0, /corral-[0-9a-f]*/)
      print "rule", family, table, chain, $NF, substr($0, RSTART, RLENGTH) }'
}
rule() { echo "insert rule $1 $2 dport { $3 } counter accept comment \"$tag\""; }
rows=$(chains)
if [ "$1" = check ]; then
  printf '%s\n' "$rows" | awk -v tag="$tag" -v each="$each" '
    $1 == "chain" { chains++ }
    $1 == "rule" { if ($6 == tag) good++; else old++ }
    END { if (good == chains * each && !old) print "open"; else print "closed" }'
  exit
fi
printf '%s\n' "$rows" | while read -r what family table chain handle _; do
  if [ "$what" = rule ]; then echo "delete rule $family $table $chain handle $handle"
  elif [ "$what" = chain ] && [ "$1" != remove ]; then
    into="$family $table $chain ip saddr { $sources }"
    for ports in $tcp; do rule "$into" tcp "$ports"; done
    for ports in $udp; do rule "$into" udp "$ports"; done
  fi
done | nft -f -
