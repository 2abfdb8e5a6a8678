"""Verbs that prove and measure: prove, bench."""
