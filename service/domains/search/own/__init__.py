"""A caller's own searches: those of late, from the search log, and those that they saved."""
