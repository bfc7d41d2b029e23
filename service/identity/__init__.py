"""Organizations, principals (users, groups, service accounts), passwords and memberships."""
