"""The audit log: creating, storing and listing entries. `operate.audit_log` shows entries to admins and erases
texts."""
