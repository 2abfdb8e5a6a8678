"""The tailnet between machines: its control server, the client's programs, links measured."""
