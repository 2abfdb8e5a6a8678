"""Wanted against observed gives a Plan. Pure: no I/O, no clock."""
