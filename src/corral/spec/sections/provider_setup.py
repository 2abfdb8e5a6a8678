"""A cluster whose machines come with Slurm, set up by its provider and its section of the file."""

from __future__ import annotations

from typing import cast

from corral.spec.models import SECTIONS, ClusterSpec
from corral.spec.providers import PROVIDERS, part_of
from corral.spec.sections.provider_section import Section


def is_configured(spec: ClusterSpec) -> bool:
    """Whether a provider itself sets up Slurm and what machines hold."""
    return any(group.capabilities.configures for group in spec.groups)


def section_of(spec: ClusterSpec) -> Section | None:
    """The section of a provider that the file has, None where it has none."""
    sections = (cast("Section | None", getattr(spec, name)) for name in SECTIONS)
    return next((section for section in sections if section is not None), None)


def completed(spec: ClusterSpec) -> ClusterSpec:
    """The same cluster with what providers set up filled in; what the file declares stays."""
    for provider in PROVIDERS.values():
        if provider.completes:
            spec = part_of(provider.completes)(spec)
    return spec
