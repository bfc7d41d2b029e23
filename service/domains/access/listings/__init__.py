"""Snapshots of all grants, groups and members, page by page."""
