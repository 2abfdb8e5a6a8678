"""How messages of programs are read, by subject: YAML files, as ``readings.yaml``."""
