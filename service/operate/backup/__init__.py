"""Backups: taking, checking and restoring."""
