"""Backups: taking, checking and restoring them."""
