"""Reports of proofs and measurements: one HTML file that loads nothing. Jinja2 and uPlot."""
