"""Users, groups, organizations and API keys, as admins manage them."""
