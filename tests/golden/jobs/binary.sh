#!/bin/sh
#SBATCH --job-name=run
#SBATCH --partition=p
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=1
#SBATCH --output=/s/x/batch.log
#SBATCH --open-mode=append
#SBATCH --no-requeue

set -u
corral_job=/s/x
corral_folder=$corral_job
export CORRAL_JOB_FOLDER="$corral_folder"
rm -f "$corral_folder/ended" "$corral_folder/returned" "$corral_folder/raised"
corral_end() {
  echo "$1" > "$corral_folder/ended.new" && mv "$corral_folder/ended.new" "$corral_folder/ended"
  exit "$1"
}
corral_fail() {
  echo "corral: $1" >&2
  corral_end 1
}
export CORRAL_CHECKPOINTS="$corral_folder/checkpoints"
cd "$corral_folder" || corral_fail "the folder to run in cannot be entered on $(hostname)"

# corral_node_address NODE: its NodeAddr. Of a name the first IPv4 address that is not a loopback one (Debian and
# Ubuntu write 127.0.1.1 for a machine's own name into its /etc/hosts); the name itself if it has none.
corral_node_address() (
  # The first field of that name: free text, which may look like a field, comes later in the line.
  corral_address=$(timeout 30 scontrol --oneliner show node "$1" | awk '
    NR == 1 { for (i = 1; i <= NF; i++) if (!known && sub(/^NodeAddr=/, "", $i)) { print $i; known = 1 } }')
  case $corral_address in
  *[!0-9.]*)
    corral_resolved=$(getent ahostsv4 "$corral_address" | awk '$1 !~ /^127[.]/ { print $1; exit }')
    corral_address=${corral_resolved:-$corral_address}
    ;;
  esac
  echo "$corral_address"
)
corral_first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(corral_node_address "$corral_first")
case $MASTER_ADDR in
"") corral_fail "Slurm knows no address of $corral_first" ;;
127.*|localhost|::1)
  [ "$SLURM_JOB_NUM_NODES" = 1 ] ||
    corral_fail "$corral_first has the address $MASTER_ADDR, which other nodes cannot reach: set its NodeAddr" ;;
esac
corral_in_use() {
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$(printf '%04X' "$1")" \
    '{ n = split($2, a, ":"); if (a[n] == port) found = 1 } END { exit !found }'
}
corral_tries=0
while
  MASTER_PORT=$((20000 + (SLURM_JOB_ID + corral_tries * 257) % 10000))
  corral_in_use "$MASTER_PORT"
do
  corral_tries=$((corral_tries + 1))
  [ "$corral_tries" -lt 1000 ] || corral_fail "no free port on $corral_first"
done
export MASTER_ADDR MASTER_PORT

export PYTHONPATH="$corral_job/lib${PYTHONPATH:+:$PYTHONPATH}"

corral_rank=$(cat <<'END_OF_RANK'
corral_give() {
  eval "[ -n \"\${$1+x}\" ]" || export "$1=$2"
}
corral_interface='' corral_fabric='' corral_threads=1
corral_sys=/sys corral_profile=/var/lib/tcpxo/lib64/nccl-env-profile.sh corral_pkey='' corral_gid=''
corral_nic=$corral_interface corral_why='network.data.interface in the cluster file'
if [ -z "$corral_nic" ]; then
  corral_why='holds the address of the first node'
  corral_nic=$(ip -o addr show to "$MASTER_ADDR" 2>/dev/null | awk '{ print $2; exit }')
fi
if [ -z "$corral_nic" ]; then
  corral_why='the route to the first node'
  corral_nic=$(ip -o route get "$MASTER_ADDR" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
fi
if [ -n "$corral_nic" ]; then
  corral_give GLOO_SOCKET_IFNAME "$corral_nic" "$corral_why"
  corral_give NCCL_SOCKET_IFNAME "=$corral_nic" "$corral_why"
fi
corral_switches=" "
for corral_gpu in "$corral_sys"/bus/pci/devices/*; do
  case $(cat "$corral_gpu/vendor" 2>/dev/null)/$(cat "$corral_gpu/class" 2>/dev/null) in
  0x10de/0x03*) corral_switches="$corral_switches$(readlink -f "$corral_gpu" | sed -n 's|^\(.*/devices/pci[^/]*/[^/]*\)/.*|\1|p') " ;;
  esac
done
corral_near=""
for corral_device in "$corral_sys"/class/infiniband/*; do
  corral_at=$(readlink -f "$corral_device/device" | sed -n 's|^\(.*/devices/pci[^/]*/[^/]*\)/.*|\1|p')
  case $corral_switches in *" ${corral_at:-none} "*) corral_near="$corral_near ${corral_device##*/} " ;; esac
done
corral_fastest=0 corral_ports="" corral_gids="" corral_keys="" corral_where=", the fastest here"
[ -z "$corral_near" ] || corral_where=" that share a PCIe switch with a GPU"
for corral_port in "$corral_sys"/class/infiniband/*/ports/*; do
  grep -qs ACTIVE "$corral_port/state" || continue
  case $corral_fabric/$(cat "$corral_port/link_layer") in
  infiniband/InfiniBand|/InfiniBand|roce/Ethernet) ;;
  *) continue ;;
  esac
  corral_device=${corral_port%/ports/*} corral_device=${corral_device##*/}
  case ${corral_near:- $corral_device } in *" $corral_device "*) ;; *) continue ;; esac
  corral_rate=$(sed 's/[^0-9].*//' "$corral_port/rate")
  [ "${corral_rate:-0}" -ge "$corral_fastest" ] || continue
  [ "$corral_rate" = "$corral_fastest" ] || corral_ports="" corral_gids="" corral_keys=""
  corral_fastest=$corral_rate
  corral_ports="$corral_ports,$corral_device:${corral_port##*/}"
  corral_index=none
  for corral_key in "$corral_port"/pkeys/*; do
    [ -z "$corral_pkey" ] || [ "$(cat "$corral_key" 2>/dev/null)" != "$corral_pkey" ] || { corral_index=${corral_key##*/}; break; }
  done
  corral_keys="$corral_keys $corral_index"
  for corral_type in "$corral_port"/gid_attrs/types/*; do
    case $(cat "$corral_type" 2>/dev/null)/$(cat "$corral_port/gids/${corral_type##*/}" 2>/dev/null) in
    "RoCE v2"/0000:0000:0000:0000:0000:ffff:*) corral_gids="$corral_gids ${corral_type##*/}"; break ;;
    esac
  done
done
if [ -n "$corral_ports" ]; then
  corral_give NCCL_IB_HCA "=${corral_ports#,}" "active ports at $corral_fastest Gb/s$corral_where"
  if [ -n "$corral_pkey" ]; then
    corral_pkey_index=$(printf %s "${corral_keys# }" | tr ' ' '\n' | sort -u)
    case $corral_pkey_index in
    *[!0-9]*) echo "corral: no one index of PKey $corral_pkey on ${corral_ports#,} of $(uname -n)" >&2 ;;
    *) corral_give NCCL_IB_PKEY "$corral_pkey_index" 'index of network.data.pkey on all these ports' ;;
    esac
  fi
  [ -z "$corral_gid" ] || corral_give NCCL_IB_GID_INDEX "$corral_gid" 'network.data.gid_index in the cluster file'
  corral_gid_index=$(printf %s "${corral_gids# }" | tr ' ' '\n' | sort -u)
  case $corral_gid_index in
  ""|*[!0-9]*) ;;
  *) [ -n "$corral_gid" ] || corral_give NCCL_IB_GID_INDEX "$corral_gid_index" 'RoCE v2 over IPv4 on all these ports' ;;
  esac
fi
if [ -n "$corral_profile" ] && [ -r "$corral_profile" ]; then
  while IFS='=' read -r corral_name corral_value; do
    case $corral_name in
    *[!A-Z0-9_]*) ;;
    NCCL_*|LD_LIBRARY_PATH) corral_give "$corral_name" "$corral_value" 'the GPUDirect-TCPXO profile of this node' ;;
    esac
  done <<END_OF_PROFILE
$(env -i PATH="$PATH" NCCL_LIB_DIR="${corral_profile%/*}" sh -c '. "$1" >/dev/null; PATH=$2 env' \
  sh "$corral_profile" "$PATH")
END_OF_PROFILE
fi
corral_give OMP_NUM_THREADS "$corral_threads" 'CPUs of each rank'
corral_give PYTHONUNBUFFERED 1 'lines show when they are printed'
# Debian's python3-torch 2.6 is built without libuv; the other store works with every build.
corral_give USE_LIBUV 0 'works with every build of PyTorch'
[ "$SLURM_PROCID" != 0 ] || (
  # The beginning of a file is enough: data may be large, and a pipe would never end.
  corral_starts_mpi() {
    [ -f "$1" ] || return
    head -c 65536 "$1" | grep -aEq '^[[:space:]]*(from|import)[[:space:]]+mpi4py' ||
      ldd "$1" 2>/dev/null | grep -Eq '^[[:space:]]*libmpi(_cxx|ch)?\.so'
  }
  corral_script="start the script itself: Slurm starts its ranks"
  corral_lone=
  case ${1##*/} in
  (accelerate)
    case " $* " in
    (*" --num_machines"* | *" --num-machines"* | *" --config_file"*) ;;
    (*" --multi"* | *" --num_processes"* | *" --num-processes"*) corral_lone=yes ;;
    (*) case ${CUDA_VISIBLE_DEVICES-} in (*,*) corral_lone=yes ;; esac ;;
    esac
    [ -z "$corral_lone" ] || corral_lone="accelerate launch with several processes knows of one machine" corral_remedy=$corral_script ;;
  (deepspeed)
    case " $* " in
    (*" --hostfile"* | *" -H "* | *" --no_ssh"*) ;;
    (*) corral_lone="deepspeed knows of one machine" corral_remedy=$corral_script ;;
    esac ;;
  (*)
    [ -n "${PMIX_RANK-}${PMI_RANK-}" ] || for corral_word in "$@"; do
      corral_file=$(command -v -- "$corral_word")
      if [ "$corral_word" = mpi4py ] || corral_starts_mpi "${corral_file:-$corral_word}"; then
        corral_lone="Slurm starts MPI without PMIx and PMI-2 here"
        corral_remedy="MpiDefault=pmix in slurm.conf (slurm.settings of the cluster file)"
      fi
    done ;;
  esac
  [ -z "$corral_lone" ] ||
    echo "corral: warning: $corral_lone, so each of ${SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS} ranks is a separate world: $corral_remedy" >&2
)
export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" NODE_RANK="$SLURM_NODEID"
export WORLD_SIZE="${SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS}"
corral_tasks=${SLURM_STEP_TASKS_PER_NODE:-$SLURM_TASKS_PER_NODE}
export LOCAL_WORLD_SIZE="${corral_tasks%%[(,]*}"
exec "$@"
END_OF_RANK
)
set +u # ranks of a user who exports SHELLOPTS would have it too
corral_lines=$(wc -l < "$corral_folder/batch.log") || corral_lines=0
srun --kill-on-bad-exit=1 --input=none --distribution=block \
  --nodes=2 --ntasks=4 --ntasks-per-node=2 --cpus-per-task=1 \
  --output="$corral_folder/rank-%t.log" --open-mode=append \
  sh -c "$corral_rank" rank /s/run.bin
corral_status=$?

if [ "$corral_status" -ne 0 ]; then
  corral_how=$(tail -n "+$((corral_lines + 1))" "$corral_folder/batch.log" |
    sed -n '/^srun: error: [^ ]*: tasks* [0-9]/{s/.*: tasks* [^ ]*: //p;q;}')
  case $corral_how in
  *" exit code "*) corral_code=${corral_how##* exit code } ;;
  "Illegal instruction"*) corral_code=132 ;;
  Aborted*) corral_code=134 ;;
  "Bus error"*) corral_code=135 ;;
  "Floating point exception"*) corral_code=136 ;;
  Killed*) corral_code=137 ;;
  "Segmentation fault"*) corral_code=139 ;;
  *) corral_code= ;;
  esac
  case $corral_code in ""|*[!0-9]*) ;; *) corral_status=$corral_code ;; esac
fi
corral_end "$corral_status"
