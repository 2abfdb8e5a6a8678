#!/bin/sh
# Corral's scheduled proof, collectives: sent by srun to `sh -s` on each rank, as corral-proof.
# Rank 0 prints "figure NAME VALUE" lines; nothing where there is no PyTorch.
# USE_LIBUV: a distribution's PyTorch is built without it and ends where it is asked for (F62).
#
# Installed as: /usr/local/lib/corral/proof-group.sh on the controller; sent to nodes by stdin (roles/services/proof)
# Started by: corral-proof-round, by srun
# Runs as: the user corral-proof
LC_ALL=C OMP_NUM_THREADS=1 USE_LIBUV=0
# What the program reports begins with a word that nothing else printed here can hold.
CORRAL_REPORT="corral-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') "
export LC_ALL OMP_NUM_THREADS USE_LIBUV CORRAL_REPORT
python3 -c 'import torch.distributed as d, sys; sys.exit(not d.is_available())' 2>/dev/null || exit 0
if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  small=67108864 large=1073741824
else
  small=1048576 large=4194304
fi
# No files and no traps: a preempted job must end at once (see proof-node.sh).
{
  python3 - --collectives=all_reduce,all_gather --smallest=$small --largest=$large --factor=4 --seconds=1 <<'CORRAL_COLLECTIVES'
@COLLECTIVES@
CORRAL_COLLECTIVES
  code=$?
  [ "$code" -eq 0 ] || echo "${CORRAL_REPORT}failed "
} | sed -n "s/^$CORRAL_REPORT//p" | python3 -c '
import json, sys
for line in sys.stdin:
    kind, _, report = line.partition(" ")
    if kind == "failed":
        sys.exit(1)
    if kind != "bench":
        continue
    summary = json.loads(report)
    name = summary["args"][0].removesuffix("_perf")
    cells = [row[p] for row in summary["results"] for p in ("out_of_place", "in_place") if row[p]]
    print("figure %s_gb_s %.4g" % (name, max(cell["bus_bw"] for cell in cells)))
    print("figure %s_wrong %d" % (name, sum(cell["nwrong"] for cell in cells)))
'
