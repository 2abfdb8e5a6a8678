"""Making a cluster what its file declares, and removing it; the images its nodes start from."""
