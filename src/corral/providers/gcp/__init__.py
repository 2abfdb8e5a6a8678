"""A3 Mega clusters on Google Cloud, which Google's Cluster Toolkit makes and Corral drives."""

from corral.providers.gcp.provider import GcpProvider as GcpProvider
