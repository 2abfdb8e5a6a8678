#!/bin/sh
# Written by Corral: folders of jobs for members of the directory's groups. Root.
#
# Its arguments are those of its function: the shared folder, what is in it, and GROUP:ACCOUNT:QOS each.
#
# Installed as: /usr/local/sbin/corral-member-folders on the node that keeps shared storage (roles/machine/directory)
# Started by: corral-member-folders.timer
# Runs as: root
set -u
LC_ALL=C
export LC_ALL
# shellcheck source=src/corral/agents/state/directory.sh
. state/directory.sh #include

members_folders "$@"
