#!/bin/sh
# Functions that ask whether slurmctld answers, by scontrol ping. POSIX sh.
#
# Installed as: part of the programs that include it; else nowhere: sent in front of a call (inspect/rules,
# inspect/slurm, roles/slurm/controller)
# Started by: nobody, it defines functions
# Runs as: who runs the program

# ping_is_up OUTPUT: by what scontrol ping printed, one of the controllers answers.
ping_is_up() { case $1 in *' is UP'*) ;; *) return 1 ;; esac; }

# slurmctld_is_up: one of the controllers answers.
slurmctld_is_up() { ping_is_up "$(timeout 10 scontrol ping 2>/dev/null)"; }

# slurmctld_all_up: all of them do.
slurmctld_all_up() { case $(timeout 10 scontrol ping) in *' is DOWN'* | '') return 1 ;; esac; }

# slurmctld_wait SECONDS
slurmctld_wait() (
  end=$(($(date +%s) + $1))
  until slurmctld_is_up; do
    [ "$(date +%s)" -lt "$end" ] || exit 1
    sleep 0.5
  done
)

# slurmctld_reconfigure: once it answers.
slurmctld_reconfigure() { slurmctld_wait 60 && timeout 60 scontrol reconfigure; }
