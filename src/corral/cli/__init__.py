"""The command line: one file for each verb, which parses, calls and renders."""
