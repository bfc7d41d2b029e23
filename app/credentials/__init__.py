"""Credentials: tokens, keys and applications, with scope and expiry."""
