"""Verbs that make and remove a cluster: plan, apply, up, bundle, down, image."""
