"""Rented machines: what all clouds share. A cloud itself is one module next to this folder."""
