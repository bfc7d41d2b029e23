"""Admins' oversight: alerts, the audit log, the state of the service, new owners."""
