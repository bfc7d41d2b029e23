"""Retired spaces, which nobody writes any more: emptying them."""
