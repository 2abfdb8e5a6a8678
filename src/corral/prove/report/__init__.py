"""Reports of proofs and measurements as one self-contained page: HTML, CSS and SVG, no script."""
