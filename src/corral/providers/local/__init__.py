"""Provider local: the machine that Corral runs on, as a cluster."""
