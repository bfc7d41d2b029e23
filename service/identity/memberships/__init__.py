"""Which principals are members of which groups, nested groups included."""
