#!/bin/sh
# Functions of the proof on nodes: what a job's task, a login and a shared folder show. POSIX sh and awk.
#
# Installed as: nowhere: sent in front of a call of one of them
# Started by: corral prove, by ssh and in jobs
# Runs as: root, or the proof's user
# shellcheck source=src/corral/agents/folder-answer.sh
. folder-answer.sh #include
# shellcheck source=src/corral/agents/folder-checks.sh
. folder-checks.sh #include
# shellcheck source=src/corral/agents/state/mounts.sh
. state/mounts.sh #include

# task_probe PERL: CPUs and GPUs of this task. It tries to widen its own affinity first: what binds only by default
# must not count.
task_probe() {
  taskset -pc 0-4095 $$ >/dev/null 2>&1
  echo "@ cpus $SLURMD_NODENAME $SLURM_CPUS_ON_NODE $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
  echo "@ gpus $SLURMD_NODENAME ${SLURM_STEP_GPUS:-$SLURM_JOB_GPUS}"
  perl -e "$1" "$SLURMD_NODENAME"
}

# task_hello PERL
task_hello() {
  echo "@ hello $SLURM_JOB_ID $SLURMD_NODENAME $(hostname)"
  task_probe "$1"
}

# task_neighbour: until a line comes.
task_neighbour() {
  echo "@ ready $SLURMD_NODENAME"
  read -r _
  echo "@ alive $SLURMD_NODENAME"
}

# task_memory PERL SIZE
task_memory() {
  perl -e "$1" "$2"
  echo "@ hog $SLURMD_NODENAME $?"
}

# task_library PYTHON: which MPI libraries there are.
task_library() {
  if command -v python3 >/dev/null; then exec python3 -c "$1" which; fi
  echo "@ nompi $SLURMD_NODENAME"
}

# task_mpi PYTHON: Debian's Open MPI looks for InfiniBand at its start and prints at length that there is none. It ends
# at once without a home, which a job's clean environment does not name.
task_mpi() {
  export HOME=/tmp OMPI_MCA_btl=self,vader,sm,tcp
  exec python3 -c "$1"
}

# task_rails NIC...: MTU and state of each, and the variables of NCCL, gloo and the linker.
task_rails() {
  for nic in "$@"; do
    echo "@ rail $SLURMD_NODENAME $nic $(cat "/sys/class/net/$nic/mtu" 2>/dev/null) $(cat "/sys/class/net/$nic/operstate" 2>/dev/null)"
  done
  env | grep -E '^(NCCL_|GLOO_SOCKET_IFNAME=|LD_LIBRARY_PATH=)' |
    while IFS= read -r line; do printf '@ env %s %s\n' "$SLURMD_NODENAME" "$line"; done
}

# task_links SYS: what this node is, and what carries NCCL's data by its environment: RDMA ports and the interface. A
# network plugin that is given no ports takes all active ones.
task_links() {
  echo "@ product $SLURMD_NODENAME $(cat "$1/class/dmi/id/product_name" 2>/dev/null)"
  ports=$(echo "${NCCL_IB_HCA#=}" | tr , ' ')
  case ${ports:+given}${NCCL_NET:-IB} in
  IB|Socket|given*) ;;
  *)
    ports=$(grep -ls ACTIVE "$1"/class/infiniband/*/ports/*/state |
      sed -n 's|.*/infiniband/\(.*\)/ports/\(.*\)/state$|\1:\2|p')
    ;;
  esac
  for port in $ports; do
    at=$1/class/infiniband/${port%:*}/ports/${port#*:}
    rate=$(sed 's/[^0-9].*//' "$at/rate" 2>/dev/null)
    echo "@ port $SLURMD_NODENAME $port ${rate:-0} $(cat "$at/link_layer" 2>/dev/null)"
  done
  nic=${NCCL_SOCKET_IFNAME#=}
  [ -z "$nic" ] || {
    driver=$(readlink "$1/class/net/$nic/device/driver")
    echo "@ interface $SLURMD_NODENAME $nic $(cat "$1/class/net/$nic/speed" 2>/dev/null || echo 0) ${driver##*/}"
  }
}

# task_collectives SYS PYTHON OPTION...: collectives over all ranks. Each node's first rank shows the node, and rank 0
# alone what the program and NCCL print: lines of several ranks could part its table.
task_collectives() {
  [ "${SLURM_LOCALID:-0}" != 0 ] || task_links "$1"
  program=$2
  shift 2
  python3 -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null || {
    echo "@ notorch $SLURMD_NODENAME"
    exit 3
  }
  export NCCL_DEBUG="${NCCL_DEBUG:-INFO}"
  [ "${SLURM_PROCID:-0}" = 0 ] || exec >/dev/null
  exec python3 -c "$program" "$@"
}

# session_probe PERL: who is in, in which job's cgroup, with which GPUs.
session_probe() {
  echo "@ in $(id -un)"
  sed -n 's/.*\(job_[0-9]*\).*/@ cgroup \1/p' /proc/self/cgroup
  perl -e "$1"
}

# login_once USER COMMAND: logs in through this node's own sshd and PAM, without touching the user's keys: a separate
# sshd (inetd mode, the machine's configuration) accepts a key that lives as long as this.
login_once() (
  folder=$(mktemp -d /run/corral-prove.XXXXXX) || exit 1
  trap 'rm -rf "$folder"' EXIT
  chmod 755 "$folder" && ssh-keygen -q -t ed25519 -N '' -f "$folder/key" && cp "$folder/key.pub" "$folder/auth" &&
    timeout 30 ssh -F /dev/null -i "$folder/key" -o BatchMode=yes -o StrictHostKeyChecking=no \
      -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes \
      -o ProxyCommand="/usr/sbin/sshd -i -o AuthorizedKeysFile=$folder/auth -E $folder/log" \
      "$1@localhost" sh -c "$2" 2>&1 </dev/null
  exit 0
)

# file_as_root FILE: to whom a file belongs that root makes, or "refused".
file_as_root() {
  if (: >"$1") 2>/dev/null; then
    stat -c %u "$1"
    rm -f "$1"
  else
    echo refused
  fi
}

# probe_folder INDEX FOLDER SECONDS LOCAL ROOT JOBS KEEPER: whether it answers, what is mounted, whether it is the folder
# LOCAL ("" for none), to whom the file ROOT belongs that root makes ("" for none), who could replace it, where
# JOBS is yes (KEEPER may own it).
probe_folder() (
  i=$1 folder=$2 own=$4 root=$5 jobs=$6
  answer=$(folder_answer "$folder" "$3")
  echo "@ answer $i $answer"
  echo "@ mounted $i $(mounted_from "$folder")"
  [ -z "$own" ] || ! same_folder "$folder" "$own" || echo "@ local $i"
  case $answer in *failed) exit ;; esac
  [ -z "$root" ] || echo "@ root $i $(file_as_root "$root")"
  [ "$jobs" = no ] || held "$folder" "$(id -u "${7:-root}" 2>/dev/null || echo 0)" 2>&1 | sed "s/^/@ held $i /"
)
