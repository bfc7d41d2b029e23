"""Credentials: tokens, keys and applications, how far they reach and when they end."""
