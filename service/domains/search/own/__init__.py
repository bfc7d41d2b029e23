"""A caller's own searches: recent searches from the search log, and saved searches."""
