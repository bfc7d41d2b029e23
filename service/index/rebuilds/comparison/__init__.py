"""Comparing a space with the one that is built to replace it."""
