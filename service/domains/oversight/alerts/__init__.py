"""Alerts: something failed, and people and programs are told, until it works again."""
