"""Google Cloud as far as an A3 Mega cluster needs it: programs on PATH, an API, machines.

``terraform`` and ``packer`` stand for the real ones below a real or a simulated ``gcluster``; what
they make is in one file, which the simulated Compute API reads. Machines may be embedded nodes.
"""
