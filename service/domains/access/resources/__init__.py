"""Resources by name, type and reader, for admins."""
