"""Resources by name, type and reader, and lists of all access, for admins."""
