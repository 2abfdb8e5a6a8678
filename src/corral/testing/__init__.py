"""Stand-ins for what costs money, for tests and rehearsals."""
