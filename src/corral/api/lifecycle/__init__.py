"""Make a cluster what its file declares, and remove it; bundles, and images of nodes."""
