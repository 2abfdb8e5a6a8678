#!/bin/sh
# Functions for the daemons of job steps on a node. POSIX sh.
#
# Installed as: part of the programs that include it; else nowhere: sent in front of a call (apply/roll, inspect/jobs)
# Started by: nobody, it defines functions
# Runs as: who runs the program

# root_steps COLUMNS: of ps, of each slurmstepd. Root's alone: any user may call a process slurmstepd.
root_steps() (
  rows=$(ps -C slurmstepd -o "ruid=,$1" 2>/dev/null)
  [ $? -le 1 ] || exit 1 # 1: there is none
  printf '%s\n' "$rows" | sed -n 's/^ *0 //p'
)

# no_steps: none runs here.
no_steps() (
  steps=$(root_steps args=) && [ -z "$steps" ]
)
