"""People and groups: lists, memberships, and changes."""
