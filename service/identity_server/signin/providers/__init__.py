"""Providers of organizations: stored settings, and the people each may sign in."""
