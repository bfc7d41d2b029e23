"""Operations: start-up, commands, backup, secret keys, status, and reading and erasure of the audit log."""
