#!/bin/sh
# Functions that have slurmctld write users and accounts to its state. POSIX sh.
#
# slurmctld writes them every 300 s and as it stops (PERIODIC_CHECKPOINT of its controller.c). A backup controller that takes
# over while slurmdbd is lost knows nobody who came since, and where they were never written it answers nobody at all (24.11.5).
#
# Installed as: part of the programs that include it; else nowhere: sent in front of a call (state/slurm/accounts)
# Started by: nobody, it defines functions
# Runs as: root

# people_saved: where there is a backup controller, slurmctld writes its complete state now. It does so once a partition is
# deleted (save_all_state in its proc_req.c, 21.08 to 26.05): here one without nodes, made for it.
people_saved() (
  conf=/etc/slurm/slurm.conf part=PartitionName=corral-writes-state
  hosts=$(grep -c '^SlurmctldHost=' "$conf" 2>/dev/null)
  [ "${hosts:-0}" -gt 1 ] || exit 0
  file=$(sed -n 's/^StateSaveLocation=//p' "$conf")/assoc_mgr_state
  before=$(stat -c %y "$file" 2>/dev/null)
  timeout 30 scontrol create "$part" State=DOWN Hidden=YES || : # one of a run that was killed is there already
  timeout 30 scontrol delete "$part" && people_written "$file" "$before"
)

# people_written FILE BEFORE: its time has changed; slurmctld answers before it writes.
people_written() (
  end=$(($(date +%s) + 60))
  until [ "$(stat -c %y "$1" 2>/dev/null)" != "$2" ]; do
    [ "$(date +%s)" -lt "$end" ] || {
      echo "slurmctld did not write $1 within 60 s: read /var/log/slurm/slurmctld.log" >&2
      exit 1
    }
    sleep 0.1
  done
)
