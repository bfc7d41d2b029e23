"""Users, groups, organizations and API keys, as managed by admins."""
