"""Verbs of rented machines: offers, cloud, cost, elastic, reap."""
