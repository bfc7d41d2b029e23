"""The audit log: making, storing and listing entries; `operate.audit_log` shows them to admins and erases texts."""
