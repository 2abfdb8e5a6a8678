"""Names, ports, logins and the tailnet of a machine."""
