"""People, groups, organizations and programs, and how each is managed."""
