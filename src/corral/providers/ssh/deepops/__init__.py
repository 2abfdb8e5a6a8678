"""DeepOps' inventory and variables, written and read."""
