#!/bin/sh
# Corral's scheduled proof, the part that runs on a node: sent by srun to `sh -s`, as corral-proof.
# Prints "figure NAME VALUE" lines; needs nothing but the system's own tools, uses PyTorch if there.
# A job that is preempted gets SIGTERM in this shell alone (proctrack/cgroup signals the task, and
# SIGKILL reaches the rest when it has ended): so no traps, behind which sh would wait for its GPU
# program and the user's job for KillWait, 30 s (seen: 9 s), and no files that only traps remove.
#
# Installed as: /usr/local/lib/corral/proof-node.sh on the controller; sent to nodes by stdin (roles/services/proof)
# Started by: corral-proof-round, by srun
# Runs as: the user corral-proof
LC_ALL=C
export LC_ALL
mib=${1:-128}
shift 2>/dev/null
seconds() { date +%s.%N; }
# rate NAME MIB BEGIN END
rate() { awk -v n="$1" -v m="$2" -v b="$3" -v e="$4" 'BEGIN { if (e > b) printf "figure %s %.1f\n", n, m * 1.048576 / (e - b) }'; }

cores=$(nproc)
begin=$(seconds)
i=0
while [ "$i" -lt "$cores" ]; do
  head -c "${mib}M" /dev/zero | sha256sum >/dev/null &
  i=$((i + 1))
done
wait
rate cpu_mb_s $((mib * cores)) "$begin" "$(seconds)"

# written NAME FOLDER: what a file of that size takes until it is on the disk; it has no name by then.
written() {
  file=$(mktemp "$2/.corral-proof.XXXXXX" 2>/dev/null) || return
  exec 3>"$file"
  rm -f "$file"
  begin=$(seconds)
  if dd if=/dev/zero bs=1M count="$mib" conv=fdatasync >&3 2>/dev/null; then
    rate "$1_write_mb_s" "$mib" "$begin" "$(seconds)"
  fi
  exec 3>&-
}
written disk /var/tmp
n=0
for mount in "$@"; do
  n=$((n + 1))
  written "mount$n" "$mount"
done

python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || exit 0
# What the program reports begins with a word that nothing else printed here can hold.
CORRAL_REPORT="corral-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') "
export CORRAL_REPORT
{
  python3 - --line <<'CORRAL_GPU_PROGRAM'
@GPU@
CORRAL_GPU_PROGRAM
} | sed -n "s/^${CORRAL_REPORT}gpus //p" | python3 -c '
import json, sys
for line in sys.stdin:
    results = json.loads(line)
    for gpu in results["gpus"]:
        name = "gpu%s_" % gpu["index"]
        for kind, rate in gpu["matrix"].items():
            print("figure %s%s_tflops %.4g" % (name, kind, rate["tflops"]))
        print("figure %smemory_gb_s %.4g" % (name, gpu["memory"]["gb_s"]))
        for direction in ("to_gb_s", "from_gb_s"):
            if gpu["host"][direction] is not None:
                print("figure %s%s %.4g" % (name, direction, gpu["host"][direction]))
    for peer in results["peers"]:
        print("figure gpu%s_gpu%s_gb_s %.4g" % (peer["from"], peer["to"], peer["gb_s"]))
'
