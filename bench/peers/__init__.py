"""Carrel beside what its users would pick otherwise; the peers run in the environment that `make bench-peers` makes."""
