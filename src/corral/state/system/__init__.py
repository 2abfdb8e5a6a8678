"""Users, kernel, drivers, clock and container runtime of a machine."""
