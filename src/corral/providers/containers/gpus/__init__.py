"""GPUs of embedded nodes: those of this machine."""
