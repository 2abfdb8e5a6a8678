"""Rented machines: offers, account-wide sets, cost, elastic nodes, unused machines."""
