#!/bin/sh
# A function that ends an answer, where several are in one output.
#
# Installed as: nowhere: sent in front of questions, with the boundary in $corral_word
# Started by: corral (hosts/framing), with all that it asks a machine
# Runs as: root, or the login user
# shellcheck disable=SC2154 # corral_word is set in the line before it

# corral_answered NUMBER STATUS
corral_answered() { printf '\n%s %d %d\n' "$corral_word" "$1" "$2"; }
