#!/bin/sh
# A function for the address of a node, as other nodes reach it. POSIX sh and awk.
#
# Installed as: part of the programs and job scripts that include it (jobs/batch/fabric, jobs/batch/script)
# Started by: nobody, it defines a function
# Runs as: who runs the program

# corral_node_address NODE: its NodeAddr. Of a name the first IPv4 address that is not a loopback one (Debian and
# Ubuntu write 127.0.1.1 for a machine's own name into its /etc/hosts); the name itself if it has none.
corral_node_address() (
  # The first field of that name: free text, which may look like a field, comes later in the line.
  corral_address=$(timeout 30 scontrol --oneliner show node "$1" | awk '
    NR == 1 { for (i = 1; i <= NF; i++) if (!known && sub(/^NodeAddr=/, "", $i)) { print $i; known = 1 } }')
  case $corral_address in
  *[!0-9.]*)
    corral_resolved=$(getent ahostsv4 "$corral_address" | awk '$1 !~ /^127[.]/ { print $1; exit }')
    corral_address=${corral_resolved:-$corral_address}
    ;;
  esac
  echo "$corral_address"
)
