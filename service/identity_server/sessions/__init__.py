"""Sessions of people, for admins: browsers and applications, listed and ended."""
