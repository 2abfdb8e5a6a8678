"""Corral on machines with their own kernels (user-mode-linux), by the ssh provider."""
