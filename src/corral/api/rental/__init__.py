"""Rented machines: offers, sets of an account, cost, elastic nodes, unused machines."""
