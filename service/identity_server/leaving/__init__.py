"""Ending what people who leave have signed in with."""
