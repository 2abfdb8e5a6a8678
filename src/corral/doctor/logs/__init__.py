"""Logs to causes: lines, patterns, tracebacks, messages read."""
