"""The audit log: how entries are made, stored and listed. Reading and erasing it are `operate.audit_log`."""
