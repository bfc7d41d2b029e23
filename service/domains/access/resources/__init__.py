"""Resources by name, type and reader, and complete lists of access; for admins."""
