#!/bin/sh
# Functions for what tailscaled reports about the machine it runs on: no other program for nodes reads that.
# Of its JSON, which is indented, fields of Self come before those of Peer. Nothing without tailscale.
#
# Installed as: nowhere: sent with questions, changes and gates
# Started by: corral (api/mesh/tailnet, inspect/mesh, mesh/link), on machines of a tailnet
# Runs as: root

# tailnet_status: lines KEY VALUE: Version, TUN, BackendState, ID, Online, KeyExpiry; address, tag, server.
tailnet_status() {
  command -v tailscale >/dev/null || return 0
  timeout 10 tailscale status --json --peers=false 2>/dev/null | sed -nE -e '/"Peer"/,$d' \
    -e 's/^\s*"(Version|TUN|BackendState|KeyExpiry|ID|Online)": "?([^",]*)"?,?$/\1 \2/p' \
    -e 's/^\s*"(100\.[0-9.]*)",?$/address \1/p' \
    -e 's/^\s*"(tag:[a-zA-Z0-9-]*)",?$/tag \1/p'
  timeout 10 tailscale debug prefs 2>/dev/null | sed -nE 's/^\s*"ControlURL": "([^"]*)",?$/server \1/p'
}

# tailnet_path ADDRESS: how it is reached, and the MTU of the interface.
tailnet_path() {
  timeout 20 tailscale ping -c 6 "$1" 2>&1 | tail -n 3
  [ ! -r /sys/class/net/tailscale0/mtu ] || echo "mtu $(cat /sys/class/net/tailscale0/mtu)"
}

# udp_answers HOST PORT TEXT: "udp yes" or "udp no", whether TEXT brings a STUN answer; bash speaks UDP by /dev/udp.
udp_answers() {
  # shellcheck disable=SC2016 # bash's own arguments
  answer=$(timeout 5 bash -c 'exec 3<>/dev/udp/$0/$1 && printf "$2" >&3 && head -c 2 <&3' "$1" "$2" "$3" 2>/dev/null |
    od -An -tx1 | tr -d ' \n')
  if [ "$answer" = 0101 ]; then echo 'udp yes'; else echo 'udp no'; fi
}

# tailnet_is_online
tailnet_is_online() { tailnet_status | grep -qx 'Online true'; }
