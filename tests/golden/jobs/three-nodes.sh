#!/bin/sh
#SBATCH --job-name=train
#SBATCH --partition=main
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:rtx5090:2
#SBATCH --mem=16000M
#SBATCH --time=1-12:00:00
#SBATCH --output=/shared/corral/jobs/corral/x/batch.log
#SBATCH --open-mode=append
#SBATCH --requeue

set -u
folder=/shared/corral/jobs/corral/x
export CORRAL_JOB_FOLDER="$folder"
rm -f "$folder/ended"
end() {
  echo "$1" > "$folder/ended.new" && mv "$folder/ended.new" "$folder/ended"
  exit "$1"
}
fail() {
  echo "corral: $1" >&2
  end 1
}
cd /shared/corral/jobs/corral/x || fail "the folder to run in cannot be entered on $(hostname)"

first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_ADDR=$(scontrol --oneliner show node "$first" | sed -n 's/.* NodeAddr=\([^ ]*\) .*/\1/p')
case $MASTER_ADDR in
*[!0-9.]*)
  found=$(getent ahostsv4 "$MASTER_ADDR" | awk '$1 !~ /^127[.]/ { print $1; exit }')
  MASTER_ADDR=${found:-$MASTER_ADDR} ;;
esac
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

export NCCL_DEBUG=INFO
export NOTE='a
b'
rank=$(cat <<'END_OF_RANK'
nic=eno1
[ -n "$nic" ] || nic=$(ip -o addr show to "$MASTER_ADDR" 2>/dev/null | awk '{ print $2; exit }')
[ -n "$nic" ] ||
  nic=$(ip -o route get "$MASTER_ADDR" 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')
if [ -n "$nic" ]; then
  export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME-$nic}"
  export NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME-=$nic}"
fi
export OMP_NUM_THREADS="${OMP_NUM_THREADS-4}"
export PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}"
# Debian's python3-torch 2.6 is built without libuv; the other store works with every build.
export USE_LIBUV="${USE_LIBUV-0}"
export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" NODE_RANK="$SLURM_NODEID"
export WORLD_SIZE="${SLURM_STEP_NUM_TASKS:-$SLURM_NTASKS}"
tasks=${SLURM_STEP_TASKS_PER_NODE:-$SLURM_TASKS_PER_NODE}
export LOCAL_WORLD_SIZE="${tasks%%[(,]*}"
exec "$@"
END_OF_RANK
)
lines=$(wc -l < "$folder/batch.log") || lines=0
srun --kill-on-bad-exit=1 --input=none --distribution=block \
  --nodes=3 --ntasks=6 --ntasks-per-node=2 --cpus-per-task=4 \
  --output="$folder/rank-%t.log" --open-mode=append \
  sh -c "$rank" rank python3 /shared/corral/jobs/corral/x/code/train.py --epochs 5 'it'"'"'s $HOME'
status=$?
if [ "$status" -ne 0 ]; then
  code=$(tail -n "+$((lines + 1))" "$folder/batch.log" |
    sed -n '/^srun: error: [^ ]*: tasks* [0-9]/{s/.* exit code //p;q;}')
  case $code in ""|*[!0-9]*) ;; *) status=$code ;; esac
fi
end "$status"
