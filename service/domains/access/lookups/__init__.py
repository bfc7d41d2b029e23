"""Look-ups of access: whether and why a principal can read a resource, and all resources that a principal can read."""
