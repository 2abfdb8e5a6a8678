"""Corral on machines with kernels of their own (user-mode-linux), by the ssh provider."""
