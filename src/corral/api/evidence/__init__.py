"""Proofs and measurements, kept, compared and shown."""
