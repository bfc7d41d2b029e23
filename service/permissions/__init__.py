"""Access to resources: roles of principals, stored as access classes."""
