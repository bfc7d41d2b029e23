"""What admins watch and decide for others: alerts, the audit log, the state of the service, new owners."""
