"""Verbs of rented machines: advise, offers, cloud, cost, elastic, reap."""
