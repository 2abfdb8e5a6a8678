#!/bin/sh
#SBATCH --job-name=sh
#SBATCH --partition=main
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --gres=gpu:1
#SBATCH --mem=0
#SBATCH --output=/shared/corral/jobs/corral/x/batch.log
#SBATCH --open-mode=append
#SBATCH --no-requeue
#SBATCH --account=lab
#SBATCH --qos=high,normal
#SBATCH '--nodelist=node[0-1]'
#SBATCH --exclude=node7
#SBATCH '--constraint=[rack1|rack2]&a100*2'
#SBATCH --licenses=matlab:2,ansys@db
#SBATCH --begin=now+2hours
#SBATCH --dependency=afterok:12,afterok:13_4,afterany:14
#SBATCH --mail-user=ada@example.org
#SBATCH --mail-type=BEGIN,TIME_LIMIT_80
#SBATCH --exclusive
#SBATCH --reservation=class
#SBATCH --kill-on-invalid-dep=yes

set -u
job=/shared/corral/jobs/corral/x
folder=$job
export CORRAL_JOB_FOLDER="$folder"
rm -f "$folder/ended" "$folder/returned" "$folder/raised"
end() {
  echo "$1" > "$folder/ended.new" && mv "$folder/ended.new" "$folder/ended"
  exit "$1"
}
fail() {
  echo "corral: $1" >&2
  end 1
}
export CORRAL_CHECKPOINTS="$folder/checkpoints"
cd "$folder" || fail "the folder to run in cannot be entered on $(hostname)"

# node_address NODE: its NodeAddr. Of a name the first IPv4 address that is not a loopback one (Debian and
# Ubuntu write 127.0.1.1 for a machine's own name into its /etc/hosts); the name itself if it has none.
node_address() (
  # The first field of that name: free text, which may look like a field, comes later in the line.
  address=$(timeout 30 scontrol --oneliner show node "$1" | awk '
    NR == 1 { for (i = 1; i <= NF; i++) if (!known && sub(/^NodeAddr=/, "", $i)) { print $i; known = 1 } }')
  case $address in
  *[!0-9.]*)
    resolved=$(getent ahostsv4 "$address" | awk '$1 !~ /^127[.]/ { print $1; exit }')
    address=${resolved:-$address}
    ;;
  esac
  echo "$address"
)
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(node_address "$first")
case $MASTER_ADDR in
"") fail "Slurm knows no address of $first" ;;
127.*|localhost|::1)
  [ "$SLURM_JOB_NUM_NODES" = 1 ] ||
    fail "$first has the address $MASTER_ADDR, which other nodes cannot reach: set its NodeAddr" ;;
esac
in_use() {
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$(printf '%04X' "$1")" \
    '{ n = split($2, a, ":"); if (a[n] == port) found = 1 } END { exit !found }'
}
tries=0
while
  MASTER_PORT=$((20000 + (SLURM_JOB_ID + tries * 257) % 10000))
  in_use "$MASTER_PORT"
do
  tries=$((tries + 1))
  [ "$tries" -lt 1000 ] || fail "no free port on $first"
done
export MASTER_ADDR MASTER_PORT

export PYTHONPATH="$job/lib${PYTHONPATH:+:$PYTHONPATH}"

rank=$(cat <<'END_OF_RANK'
give() {
  eval "[ -n \"\${$1+x}\" ]" || export "$1=$2"
}
corral_interface='' corral_fabric='' corral_threads=1
corral_sys=/sys corral_profile=/var/lib/tcpxo/lib64/nccl-env-profile.sh corral_pkey='' corral_gid=''
nic=$corral_interface why='network.data.interface in the cluster file'
if [ -z "$nic" ]; then
  why='holds the address of the first node'
  nic=$(ip -o addr show to "$MASTER_ADDR" 2>/dev/null | awk '{ print $2; exit }')
fi
if [ -z "$nic" ]; then
  why='the route to the first node'
  nic=$(ip -o route get "$MASTER_ADDR" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
fi
if [ -n "$nic" ]; then
  give GLOO_SOCKET_IFNAME "$nic" "$why"
  give NCCL_SOCKET_IFNAME "=$nic" "$why"
fi
switches=" "
for gpu in "$corral_sys"/bus/pci/devices/*; do
  case $(cat "$gpu/vendor" 2>/dev/null)/$(cat "$gpu/class" 2>/dev/null) in
  0x10de/0x03*) switches="$switches$(readlink -f "$gpu" | sed -n 's|^\(.*/devices/pci[^/]*/[^/]*\)/.*|\1|p') " ;;
  esac
done
near=""
for device in "$corral_sys"/class/infiniband/*; do
  at=$(readlink -f "$device/device" | sed -n 's|^\(.*/devices/pci[^/]*/[^/]*\)/.*|\1|p')
  case $switches in *" ${at:-none} "*) near="$near ${device##*/} " ;; esac
done
fastest=0 ports="" gids="" keys="" where=", the fastest here"
[ -z "$near" ] || where=" that share a PCIe switch with a GPU"
for port in "$corral_sys"/class/infiniband/*/ports/*; do
  grep -qs ACTIVE "$port/state" || continue
  case $corral_fabric/$(cat "$port/link_layer") in
  infiniband/InfiniBand|/InfiniBand|roce/Ethernet) ;;
  *) continue ;;
  esac
  device=${port%/ports/*} device=${device##*/}
  case ${near:- $device } in *" $device "*) ;; *) continue ;; esac
  rate=$(sed 's/[^0-9].*//' "$port/rate")
  [ "${rate:-0}" -ge "$fastest" ] || continue
  [ "$rate" = "$fastest" ] || ports="" gids="" keys=""
  fastest=$rate
  ports="$ports,$device:${port##*/}"
  index=none
  for key in "$port"/pkeys/*; do
    [ -z "$corral_pkey" ] || [ "$(cat "$key" 2>/dev/null)" != "$corral_pkey" ] || { index=${key##*/}; break; }
  done
  keys="$keys $index"
  for type in "$port"/gid_attrs/types/*; do
    case $(cat "$type" 2>/dev/null)/$(cat "$port/gids/${type##*/}" 2>/dev/null) in
    "RoCE v2"/0000:0000:0000:0000:0000:ffff:*) gids="$gids ${type##*/}"; break ;;
    esac
  done
done
if [ -n "$ports" ]; then
  give NCCL_IB_HCA "=${ports#,}" "active ports at $fastest Gb/s$where"
  if [ -n "$corral_pkey" ]; then
    # shellcheck disable=SC2086 # a list
    pkey_index=$(printf '%s\n' $keys | sort -u)
    case $pkey_index in
    *[!0-9]*) echo "corral: no one index of PKey $corral_pkey on ${ports#,} of $(uname -n)" >&2 ;;
    *) give NCCL_IB_PKEY "$pkey_index" 'index of network.data.pkey on all these ports' ;;
    esac
  fi
  [ -z "$corral_gid" ] || give NCCL_IB_GID_INDEX "$corral_gid" 'network.data.gid_index in the cluster file'
  # shellcheck disable=SC2086 # a list
  gid_index=$(printf '%s\n' $gids | sort -u)
  case $gid_index in
  ""|*[!0-9]*) ;;
  *) [ -n "$corral_gid" ] || give NCCL_IB_GID_INDEX "$gid_index" 'RoCE v2 over IPv4 on all these ports' ;;
  esac
fi
if [ -n "$corral_profile" ] && [ -r "$corral_profile" ]; then
  while IFS='=' read -r name value; do
    case $name in
    *[!A-Z0-9_]*) ;;
    NCCL_*|LD_LIBRARY_PATH) give "$name" "$value" 'the GPUDirect-TCPXO profile of this node' ;;
    esac
  done <<END_OF_PROFILE
$(env -i PATH="$PATH" NCCL_LIB_DIR="${corral_profile%/*}" sh -c '. "$1" >/dev/null; PATH=$2 env' \
  sh "$corral_profile" "$PATH")
END_OF_PROFILE
fi
give OMP_NUM_THREADS "$corral_threads" 'CPUs of each rank'
give PYTHONUNBUFFERED 1 'lines show when they are printed'
# Debian's python3-torch 2.6 is built without libuv; the other store works with every build.
give USE_LIBUV 0 'works with every build of PyTorch'
rank_end=""
if [ "$SLURM_LOCALID" = 0 ]; then
  # TMPDIR is the submitting machine's: on a node it may be missing or not writable.
  for rank_folder in "${TMPDIR:-/tmp}" /tmp /dev/shm; do
    rank_end=$(mktemp -u "$rank_folder/corral-rank-XXXXXX" 2>/dev/null) && mkfifo -m 600 "$rank_end" 2>/dev/null && break
    rank_end=""
  done
fi
if [ -n "$rank_end" ]; then
  exec 9<>"$rank_end"
  exec 8<"$rank_end"
  rm -f "$rank_end"
fi
if [ -n "$rank_end" ] && ! command -v nvidia-smi >/dev/null 2>&1; then
  echo "$(uname -n) absent;" > "$CORRAL_JOB_FOLDER/gpus-$SLURM_NODEID" # stated once: nothing waits for the rank's end
elif [ -n "$rank_end" ]; then
  (
    use=$CORRAL_JOB_FOLDER/gpus-$SLURM_NODEID
    while
      if [ -n "$(find "$CORRAL_JOB_FOLDER/followed" -newermt '-60 seconds' 2>/dev/null)" ]; then
        timeout 20 nvidia-smi --query-gpu=utilization.gpu,memory.used,memory.total --format=csv,noheader,nounits 2>/dev/null |
          tr '\n' ';' | sed "s|^|$(uname -n) |" > "$use.new"
        echo >> "$use.new"
        mv "$use.new" "$use"
      fi
      timeout 30 cat
      [ "$?" = 124 ] # as timeout ends where it had to end cat
    do :; done <&8 8<&- 9<&- >/dev/null 2>&1 &
  )
fi
exec 8<&-
[ "$SLURM_PROCID" != 0 ] || (
  # The beginning of a file is enough: data may be large, and a pipe would never end.
  starts_mpi() {
    [ -f "$1" ] || return
    head -c 65536 "$1" | grep -aEq '^[[:space:]]*(from|import)[[:space:]]+mpi4py' ||
      ldd "$1" 2>/dev/null | grep -Eq '^[[:space:]]*libmpi(_cxx|ch)?\.so'
  }
  script="start the script itself: Slurm starts its ranks"
  lone=
  case ${1##*/} in
  (accelerate)
    case " $* " in
    (*" --num_machines"* | *" --num-machines"* | *" --config_file"*) ;;
    (*" --multi"* | *" --num_processes"* | *" --num-processes"*) lone=yes ;;
    (*) case ${CUDA_VISIBLE_DEVICES-} in (*,*) lone=yes ;; esac ;;
    esac
    [ -z "$lone" ] || lone="accelerate launch with several processes knows of one machine" remedy=$script ;;
  (deepspeed)
    case " $* " in
    (*" --hostfile"* | *" -H "* | *" --no_ssh"*) ;;
    (*) lone="deepspeed knows of one machine" remedy=$script ;;
    esac ;;
  (*)
    [ -n "${PMIX_RANK-}${PMI_RANK-}" ] || for word in "$@"; do
      file=$(command -v -- "$word")
      if [ "$word" = mpi4py ] || starts_mpi "${file:-$word}"; then
        lone="Slurm starts MPI without PMIx and PMI-2 here"
        remedy="MpiDefault=pmix in slurm.conf (slurm.settings of the cluster file)"
      fi
    done ;;
  esac
  [ -z "$lone" ] ||
    echo "corral: warning: $lone, so each of ${SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS} ranks is a separate world: $remedy" >&2
)
export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" NODE_RANK="$SLURM_NODEID"
export WORLD_SIZE="${SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS}"
tasks=${SLURM_STEP_TASKS_PER_NODE:-$SLURM_TASKS_PER_NODE}
export LOCAL_WORLD_SIZE="${tasks%%[(,]*}"
exec "$@"
END_OF_RANK
)
lines=$(wc -l < "$folder/batch.log") || lines=0
srun --kill-on-bad-exit=1 --input=none --distribution=block \
  --nodes=3 --ntasks=3 --ntasks-per-node=1 --cpus-per-task=1 \
  --output="$folder/rank-%t.log" --open-mode=append \
  sh -c "$rank" rank sh -c 'echo $HOME '"'"'it is'"'"'; nvidia-smi -L | wc -l' ''
status=$?

if [ "$status" -ne 0 ]; then
  how=$(tail -n "+$((lines + 1))" "$folder/batch.log" |
    sed -n '/^srun: error: [^ ]*: tasks* [0-9]/{s/.*: tasks* [^ ]*: //p;q;}')
  case $how in
  *" exit code "*) code=${how##* exit code } ;;
  "Illegal instruction"*) code=132 ;;
  Aborted*) code=134 ;;
  "Bus error"*) code=135 ;;
  "Floating point exception"*) code=136 ;;
  Killed*) code=137 ;;
  "Segmentation fault"*) code=139 ;;
  *) code= ;;
  esac
  case $code in ""|*[!0-9]*) ;; *) status=$code ;; esac
fi
end "$status"
