"""Corral: one file in, one proven GPU Slurm cluster out.

    import corral

    cluster = corral.open("laptop.yaml")
    print(cluster.plan().empty)
    cluster.up()
    assert cluster.prove().good

The same use cases as on the command line, synchronous; ``corral.api`` has them as async
functions. Names are in ``__init__.pyi``, and loaded at first use: the command line's start must
not pay for them.
"""

from corral.lazy import names_of_stub

__getattr__, __dir__ = names_of_stub(__name__, __file__)
