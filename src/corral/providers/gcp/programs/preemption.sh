#!/bin/sh
# Polls whether the cloud takes this machine back; then its jobs save and start again elsewhere, and the node goes down.
#
#   preemption.sh watch    resume this node where its last machine's end drained it; poll until the cloud gives notice, then as act
#   preemption.sh act      what is done on a notice
#
# On a notice: the node is drained, so that nothing new starts; each job here that asked for it by its comment
# (corral:signal=USR1, as "corral run --requeue" sets it) gets that signal in its batch script; the node is DOWN once no job is
# left or the cloud's time is nearly over, and Slurm requeues what still runs, at once and not after SlurmdTimeout.
# A job that asked for nothing gets no signal: one that it does not handle would kill it.
#
# Installed as: /usr/local/lib/corral/preemption.sh on spot machines (providers/gcp/blueprint/releases)
# Started by: corral-preemption.service
# Runs as: root
set -u
LC_ALL=C
export LC_ALL
reason='corral: the cloud takes this machine back'
url=${CORRAL_NOTICE_URL-}
header=${CORRAL_NOTICE_HEADER-}
taken=${CORRAL_NOTICE_TAKEN-}
seconds=${CORRAL_NOTICE_SECONDS:-30}
poll=${CORRAL_NOTICE_POLL:-2}
margin=${CORRAL_NOTICE_MARGIN:-5}
node=${CORRAL_NOTICE_NODE:-$(hostname -s)}

# noticed: the cloud has given notice. No answer is not a notice.
noticed() {
  case $(curl -s -m 3 -H "$header" "$url" 2>/dev/null) in *"$taken"*) ;; *) return 1 ;; esac
}

# jobs_here: lines NUMBER LABEL of the jobs that run on this node; the label of an array's task is ARRAY_TASK.
jobs_here() { timeout 10 squeue -h -w "$node" -t R -o '%A %i'; }

# comment_of JOB: asked for each job alone. A comment may have any number of lines: in a list of jobs its user could
# write the line of another job.
comment_of() { timeout 10 squeue -h -w "$node" -t R -j "$1" -o %k; }

# signal_of COMMENT: the signal that it names.
signal_of() {
  case $1 in *corral:signal=*) ;; *) return 1 ;; esac
  signal=${1#*corral:signal=}
  signal=${signal%%[!A-Z0-9]*}
  case $signal in USR1 | USR2 | TERM | INT | HUP | CONT) echo "$signal" ;; *) return 1 ;; esac
}

# back: resume this node where it is drained since its machine was taken back: the machine is there again, and Slurm keeps the
# drain. slurm-gcp stops such a machine and starts the same one again; "Preempted instance" is its own reason. A drain by
# anybody else stays. Status 1: Slurm did not answer.
back() {
  record=$(timeout 5 scontrol -o show node "$node" 2>/dev/null) && [ -n "$record" ] || return 1
  case $record in
  *" State="*DRAIN*" Reason=$reason ["* | *" State="*DRAIN*" Reason=Preempted instance ["*) ;;
  *) return 0 ;;
  esac
  timeout 5 scontrol update nodename="$node" state=resume >&2 && echo "$node: its machine is back: resumed"
}

act() {
  until=$(($(date +%s) + seconds - margin))
  echo "$node: the cloud takes this machine back in $seconds s"
  timeout 10 scontrol update nodename="$node" state=drain reason="$reason" >&2
  jobs=$(jobs_here) || jobs=""
  while read -r job label; do
    case $job in '' | *[!0-9]*) continue ;; esac
    # The number of an array's last task is that of the array: a signal to it would reach all tasks.
    case $label in *[!0-9_]*) label=$job ;; esac
    if signal=$(signal_of "$(comment_of "$job")"); then
      timeout 10 scancel --batch --signal="$signal" -- "$label" >&2 && echo "job $label: SIG$signal, to save and start again"
    else
      echo "job $job: asked for no signal"
    fi
  done <<JOBS
$jobs
JOBS
  while [ "$(date +%s)" -lt "$until" ]; do
    # No answer is not "no jobs".
    if jobs=$(jobs_here) && [ -z "$jobs" ]; then break; fi
    sleep 1
  done
  timeout 10 scontrol update nodename="$node" state=down reason="$reason" >&2
  echo "$node: down; what still ran is requeued"
}

case ${1-} in
watch)
  resumed=""
  until noticed; do
    [ -n "$resumed" ] || if back; then resumed=yes; fi
    sleep "$poll"
  done
  act
  ;;
act) act ;;
*) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
