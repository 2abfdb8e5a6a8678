#!/bin/sh
# A function for what tailscaled reports about the machine it runs on: no other program for nodes reads that.
# Of its JSON, which is indented, fields of Self come before those of Peer. Nothing without tailscale.
#
# Installed as: nowhere: sent with questions, changes and gates
# Started by: corral, on machines of a tailnet
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
