"""Verbs of jobs and their data.

run, shell, attach, forward, notebook, jobs, logs, cancel, profile, data, env.
"""
