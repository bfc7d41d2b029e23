"""Reading the audit log, and erasing texts from it."""
