"""Convergence of Corral, ansible-core and pyinfra on the same nodes."""
