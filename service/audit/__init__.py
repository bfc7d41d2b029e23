"""The audit log: creating, storing and listing. `operate.audit_log` shows entries to admins and erases texts."""
