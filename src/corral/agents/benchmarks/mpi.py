# Installed as: the job's folder of measurements, which do not start it; else nowhere: an argument
# of python3 -c (api/evidence/collective_bench, api/evidence/node_bench, prove/checks/ranks)
# Started by: srun, in the proof's jobs
# Runs as: the user of the proof's jobs
"""An MPI hello without a compiler: the node's own MPI library by ctypes; a sum over all ranks.

Runs on nodes, under srun; imports nothing of Corral's. Prints one line for each rank,
``@ mpi RANK NODE SIZE SUM LIBRARY``, or ``@ nompi NODE`` where there is no library.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
from pathlib import Path
from typing import Any

# MPICH and Intel MPI give their handles as numbers (mpi.h), Open MPI as addresses of symbols.
MPICH = {"world": 0x44000000, "int": 0x4C000405, "sum": 0x58000003}
OPEN_MPI = {"world": "ompi_mpi_comm_world", "int": "ompi_mpi_int", "sum": "ompi_mpi_op_sum"}
PLACES = (
    "usr/lib/*/libmpi.so.*",
    "usr/lib64/openmpi/lib/libmpi.so.*",
    "opt/*/lib/libmpi.so",
    "usr/local/lib/libmpi.so*",
    "usr/lib/*/libmpich.so.*",
)


def library() -> Any:
    """The first MPI library that there is."""
    names = [ctypes.util.find_library("mpi"), ctypes.util.find_library("mpich")]
    names += [str(path) for place in PLACES for path in sorted(Path("/").glob(place))]
    for name in filter(None, names):
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    return None


def main() -> int:
    """Report which rank this is and what all ranks add up to."""
    node = os.environ.get("SLURMD_NODENAME", os.uname().nodename)
    mpi = library()
    if mpi is None:
        print("@ nompi", node)
        return 0
    open_mpi = hasattr(mpi, "ompi_mpi_comm_world")
    if sys.argv[1:] == ["which"]:
        print("@ has", node, "openmpi" if open_mpi else "mpich")
        return 0
    if open_mpi:
        handles: dict[str, Any] = {
            k: ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, v)))
            for k, v in OPEN_MPI.items()
        }
    else:
        handles = {k: ctypes.c_int(v) for k, v in MPICH.items()}
    rank, size, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    mpi.MPI_Init(None, None)
    mpi.MPI_Comm_rank(handles["world"], ctypes.byref(rank))
    mpi.MPI_Comm_size(handles["world"], ctypes.byref(size))
    mpi.MPI_Allreduce(
        ctypes.byref(rank), ctypes.byref(total), 1, handles["int"], handles["sum"], handles["world"]
    )
    kind = "openmpi" if open_mpi else "mpich"
    print("@ mpi", rank.value, node, size.value, total.value, kind, flush=True)
    mpi.MPI_Finalize()
    return 0


if __name__ == "__main__":
    sys.exit(main())
