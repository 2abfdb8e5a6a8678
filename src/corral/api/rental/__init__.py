"""Rented machines: offers, account-wide sets, cost, elastic nodes, machines that nobody needs."""
