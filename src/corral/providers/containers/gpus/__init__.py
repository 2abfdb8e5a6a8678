"""GPUs of nodes in containers: those of this machine."""
