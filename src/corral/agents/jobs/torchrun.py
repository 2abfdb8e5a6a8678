# Installed as: lib/corral/torchrun.py in the job's folder (jobs/submit)
# Started by: srun, once per node of a job with torchrun
# Runs as: the job's user
# pyright: basic, reportMissingImports=false
# It runs under the node's own PyTorch, which is not installed where Corral is checked.
"""torchrun, for builds of PyTorch without libuv too.

    python3 -m corral.torchrun [TORCHRUN'S OPTIONS...] SCRIPT [ARGS...]

With libuv it is PyTorch's own; only how it ends is shorter, for the agent's own traceback would
bury that of the rank that failed. Since PyTorch 2.4 the agents of torchrun, and ranks that
share their store, take the store's default, which is libuv, and do not look at USE_LIBUV: a build
without it, such as Debian's 2.6, ends with "use_libuv was requested but PyTorch was build without
libuv support" (seen in 2.6: elastic/rendezvous/static_tcp_rendezvous.py, rendezvous.py). There the
agents get the other store, and rank 0 serves a separate one, for which PyTorch heeds USE_LIBUV=0.
"""

import os
import runpy
import socket
import sys

import torch.distributed
import torch.distributed.launcher.api as launcher
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import static_tcp_rendezvous as static


def has_libuv():
    """Whether a store can be made as torchrun makes it."""
    try:
        torch.distributed.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    except RuntimeError as error:
        return "without libuv" not in str(error)
    return True


def free_port():
    """A port that nobody has, on all addresses."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        return listener.getsockname()[1]


def without_libuv():
    """Make agents use the store without libuv, and ranks a separate one."""
    store, given = torch.distributed.TCPStore, launcher._get_addr_and_port

    class Plain(store):
        """The store, without libuv unless asked for by name."""

        def __init__(self, *args, **named):
            named.setdefault("use_libuv", False)
            super().__init__(*args, **named)

    class Static(static.StaticTCPRendezvous):
        """Agents meet in their store, and ranks in another: the first agent announces the port."""

        use_agent_store = False
        times = 0

        def next_rendezvous(self):
            met = super().next_rendezvous()
            self.times += 1
            key = f"corral/port/{self.times}"
            if self.rank == 0:
                met.store.set(key, str(free_port()))
            met.bootstrap_store_info.master_port = int(met.store.get(key))
            return met

    torch.distributed.TCPStore = static.TCPStore = Plain
    static.StaticTCPRendezvous = Static
    # The agents' own port would be preferred to what they agreed on.
    launcher._get_addr_and_port = lambda parameters: (given(parameters)[0], None)
    os.environ["USE_LIBUV"] = "0"


def main():
    """Run PyTorch's torchrun; gives the exit status where a rank failed."""
    if not has_libuv():
        without_libuv()
    try:
        runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        status = failure.exitcode
        how = f"status {status}" if status > 0 else f"signal {-status}"
        print(f"corral: rank {rank} ended first, with {how}", file=sys.stderr)
        return status if status > 0 else 128 - status
    return 0


if __name__ == "__main__":
    sys.exit(main())
