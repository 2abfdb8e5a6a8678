#!/bin/sh
# A node without GPUDirect-TCPXO is reported, and its settings are none.
#
# Installed as: nowhere: sent
# Started by: corral run --explain
# Runs as: the user
# shellcheck disable=SC2154 # tcpxo-settings.sh sets it before
{ printf 'GPUDirect-TCPXO\tnot there\t%s\n' "$settings_out"; settings_out=""; }
