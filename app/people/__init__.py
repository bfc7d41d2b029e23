"""People and groups: who is there, what they are in, and changing that."""
