"""Verbs of a running cluster.

status, doctor, exec, ssh, drain, resume, keys, backup, restore.
"""
