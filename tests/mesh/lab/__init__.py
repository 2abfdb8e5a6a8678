"""A mesh lab: headscale, and nodes in homes behind NAT that reach each other by it alone.

``python -m tests.mesh.lab up NAME`` makes one by hand.
"""

from __future__ import annotations

from tests.mesh.lab.labs import Lab, LabNode, lab_names, needs

__all__ = ["Lab", "LabNode", "lab_names", "needs"]
