#!/bin/sh
# Written by Corral. slurmd runs this as root on each node of a job: as prolog.sh before it, as
# epilog.sh after it. It runs the executable files of prolog.d or epilog.d in the order of their
# names, other people's among them. Selectors in a name, as DGX clusters have them:
#   -exclusive-    only for a job that holds all CPUs of its nodes
#   -lastuserjob-  only when the user has no other job on this node
# A part that fails drains the node, and the reason names the part and its last line.
#
# Installed as: /etc/slurm/prolog.sh and /etc/slurm/epilog.sh on compute nodes (roles/slurm/prolog)
# Started by: slurmd, before and after each job
# Runs as: root
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL
umask 022
# shellcheck source=src/corral/agents/slurm-nodes.sh
. slurm-nodes.sh #include

when=${0##*/}
when=${when%.sh}
parts=${0%/*}/$when.d
jobs=/run/corral/jobs
job=${SLURM_JOB_ID:-} uid=${SLURM_JOB_UID:-} node=${SLURMD_NODENAME:-$(uname -n)}
case $job:$uid in
  :* | *: | *[!0-9:]*)
    echo "SLURM_JOB_ID=$job SLURM_JOB_UID=$uid: not called by slurmd" >&2
    exit 1
    ;;
esac

mkdir -p "$jobs" || exit 1
# One at a time on a node: else a user's next job could start while the last one is cleaned up
# after. Parts do not get the lock's descriptor: what they leave running must not hold it.
exec 9>/run/corral/prolog.lock
flock 9 || exit 1

if [ "$when" = prolog ]; then
  # Since when the user has had jobs here without a gap: what is older is not theirs.
  ls "$jobs/$uid".* >/dev/null 2>&1 || : >"$jobs/since.$uid"
  : >"$jobs/$uid.$job"
else
  rm -f "$jobs/$uid.$job"
fi

runs() { # JOB: it has a slurmstepd here, or began a moment ago and will have one
  # Root's alone: any user may call a process slurmstepd.
  # shellcheck disable=SC2013 # words: a path each
  for cmdline in $(grep -lsE "^slurmstepd: \[([^]]*[^0-9])?$1\." /proc/[0-9]*/cmdline); do
    [ "$(stat -c %u "${cmdline%/cmdline}" 2>/dev/null)" != 0 ] || return 0
  done
  [ -n "$(find "$jobs/$uid.$1" -mmin -10 2>/dev/null)" ]
}

lastuserjob() {
  for file in "$jobs/$uid".*; do
    [ -e "$file" ] || continue
    other=${file##*.}
    [ "$other" != "$job" ] || continue
    if runs "$other"; then return 1; fi
    rm -f "$file" # its epilog never ran: slurmd was killed, or the machine
  done
}

# A line of CPU_IDs= in a job's name or comment can only make a job of all CPUs one of fewer, as its user may ask for
# anyway: Slurm's own lines are there too.
exclusive() {
  timeout 30 scontrol show -d job "$job" 2>/dev/null | awk -v all="$(nproc --all)" '
    match($0, / CPU_IDs=[0-9,-]+/) {
      n = split(substr($0, RSTART + 9, RLENGTH - 9), ids, ",")
      cpus = 0
      for (i = 1; i <= n; i++)
        cpus += split(ids[i], ends, "-") > 1 ? ends[2] - ends[1] + 1 : 1
      lines++
      if (cpus < all) part = 1
    }
    END { exit !(lines && !part) }'
}

selected() { # NAME
  case $1 in
    *-lastuserjob-*) lastuserjob || return 1 ;;
  esac
  case $1 in
    *-exclusive-*)
      [ -n "${alone:-}" ] || { exclusive && alone=yes || alone=no; }
      [ "$alone" = yes ] || return 1
      ;;
  esac
}

drain() { # NAME STATUS FILE
  last=$(grep -v '^[[:space:]]*$' "$3" | tail -n 1 | tr -cd '[:print:]' | cut -c 1-160)
  [ -n "$last" ] || last="no output"
  # Who drained the node before has the better reason.
  timeout 20 scontrol --oneliner show node "$node" 2>/dev/null | drained_nodes | grep -q . ||
    timeout 20 scontrol update "NodeName=$node" State=DRAIN \
      "Reason=$when part $1 failed ($2): $last" >&2
}

output=$(mktemp /run/corral/output.XXXXXX) || exit 1
trap 'rm -f "$output"' EXIT
worst=0
for part in "$parts"/*; do
  name=${part##*/}
  case $name in *[!A-Za-z0-9_-]*) continue ;; esac # editors' copies, files of packages
  if ! [ -f "$part" ] || ! [ -x "$part" ] || ! selected "$name"; then continue; fi
  : >"$output"
  "$part" </dev/null >"$output" 2>&1 9>&-
  status=$?
  # Without a journal (logger fails) the work still counts.
  sed "s/^/job $job $name: /" "$output" | logger -t "slurm-$when" 2>/dev/null
  [ $status -eq 0 ] && continue
  echo "job $job $name: exit status $status" | logger -t "slurm-$when" -p daemon.err 2>/dev/null
  drain "$name" $status "$output"
  worst=1
  [ "$when" = prolog ] && break # the job will not run here
done
exit $worst
