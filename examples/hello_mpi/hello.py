"""Each rank prints where it is; rank 0 checks that all are there and that a sum over them is right.

The same as hello.c, for nodes without a compiler. Needs mpi4py, whose wheel finds the node's own
MPI library (Open MPI or MPICH) when it starts.
"""

import json
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
print(f"rank {world.rank} of {world.size} on {MPI.Get_processor_name()}", flush=True)
total = world.allreduce(world.rank, op=MPI.SUM)
if world.rank == 0:
    print(f"RESULT {json.dumps({'ranks': world.size, 'sum': total})}", flush=True)
sys.exit(0 if total == world.size * (world.size - 1) // 2 else 1)
