"""Compares desired with observed state: a Plan. Pure: no I/O, no clock."""
