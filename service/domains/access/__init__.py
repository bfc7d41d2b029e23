"""Access to resources: checks, lists, grants and explanations."""
