"""Alerts: after a failure, people and programs are notified, until recovery."""
