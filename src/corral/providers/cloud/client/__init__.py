"""One account of a cloud: its key, its address, calls over HTTPS."""
