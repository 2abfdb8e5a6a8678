"""What a cluster file declares of its tailnet."""

from __future__ import annotations

from corral.spec.models import ClusterSpec
from corral.spec.sections.network import Mesh


def mesh_of(spec: ClusterSpec) -> Mesh | None:
    """The tailnet of a cluster, None where its control network is another."""
    if spec.network.control != "tailscale":
        return None
    return spec.network.mesh or Mesh()


def tag_of(spec: ClusterSpec) -> str:
    """``tag:NAME`` of a cluster's nodes."""
    mesh = mesh_of(spec)
    return f"tag:{(mesh.tag if mesh else None) or f'corral-{spec.name}'}"
