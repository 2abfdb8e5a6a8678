"""Rented machines: what all clouds share. Each cloud is a folder next to this one."""
