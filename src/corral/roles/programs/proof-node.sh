#!/bin/sh
# Corral's scheduled proof, the part that runs on a node: sent by srun to `sh -s`, as corral-proof.
# Prints "figure NAME VALUE" lines; needs nothing but the system's own tools, uses PyTorch if there.
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

# written NAME FOLDER: what a file of that size takes until it is on the disk.
written() {
  file=$(mktemp "$2/.corral-proof.XXXXXX" 2>/dev/null) || return
  trap 'rm -f "$file"' EXIT HUP INT TERM
  begin=$(seconds)
  if dd if=/dev/zero of="$file" bs=1M count="$mib" conv=fdatasync 2>/dev/null; then
    rate "$1_write_mb_s" "$mib" "$begin" "$(seconds)"
  fi
  rm -f "$file"
}
written disk /var/tmp
n=0
for mount in "$@"; do
  n=$((n + 1))
  written "mount$n" "$mount"
done

python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || exit 0
cat >"${TMPDIR:-/tmp}/corral-gpu.$$" <<'CORRAL_GPU_PROGRAM'
@GPU@
CORRAL_GPU_PROGRAM
python3 "${TMPDIR:-/tmp}/corral-gpu.$$" --line | sed -n 's/^@@corral-gpus //p' | python3 -c '
import json, sys
for line in sys.stdin:
    found = json.loads(line)
    for gpu in found["gpus"]:
        name = "gpu%s_" % gpu["index"]
        for kind, one in gpu["matrix"].items():
            print("figure %s%s_tflops %.4g" % (name, kind, one["tflops"]))
        print("figure %smemory_gb_s %.4g" % (name, gpu["memory"]["gb_s"]))
        for way in ("to_gb_s", "from_gb_s"):
            if gpu["host"][way] is not None:
                print("figure %s%s %.4g" % (name, way, gpu["host"][way]))
    for peer in found["peers"]:
        print("figure gpu%s_gpu%s_gb_s %.4g" % (peer["from"], peer["to"], peer["gb_s"]))
'
rm -f "${TMPDIR:-/tmp}/corral-gpu.$$"
