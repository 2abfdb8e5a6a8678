"""What is broken, why, and what to do: the catalogue of failures, and its readers."""
