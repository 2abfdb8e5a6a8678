#!/bin/sh
# Written by Corral: Slurm accounts for members of the directory's groups. Root.
#
# Its arguments are those of its function: the cluster and GROUP:ACCOUNT:QOS each.
#
# Installed as: /usr/local/sbin/corral-group-accounts on the controller (roles/machine/directory)
# Started by: corral-group-accounts.timer
# Runs as: root
set -u
LC_ALL=C
export LC_ALL
# shellcheck source=src/corral/agents/state/directory.sh
. state/directory.sh #include

group_accounts_timed /run/corral-group-accounts.missing "$@"
