"""The state of an organization in counts."""
