"""People's sessions, for admins: browsers and applications, listed and ended."""
