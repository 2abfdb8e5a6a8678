"""Verbs of a running cluster.

status, doctor, exec, ssh, drain, resume, report, nodes, keys, backup, restore.
"""
