"""What operators use: start-up, commands, backup, secret keys, status, and the audit log's reading and erasure."""
