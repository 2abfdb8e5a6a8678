"""Network, shared folders, GPUs and scaling: what was measured, and what it means. Pure."""
