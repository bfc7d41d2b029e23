"""Who may read what: roles of principals on resources, kept as access classes."""
