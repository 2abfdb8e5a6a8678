"""How fast GPUs talk to each other: tables read, limits computed, verdicts given. Pure."""
