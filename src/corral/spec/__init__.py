"""What is declared: models, loading, defaults, findings about the file alone. Pure but for load."""
