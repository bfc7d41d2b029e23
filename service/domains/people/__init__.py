"""People, groups, organizations and programs, and their management."""
