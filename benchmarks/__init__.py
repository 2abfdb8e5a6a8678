"""Figures: run a module of this folder; each prints the machine it was taken on."""
