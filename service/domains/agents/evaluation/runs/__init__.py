"""Measurements of runs over evaluation sets, and the share of replies supported by citations."""
