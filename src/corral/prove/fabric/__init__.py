"""GPUs' communication: tables of measurements, limits, verdicts. Pure."""
