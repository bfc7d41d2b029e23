"""Providers of organizations: what is kept of them, and whom they may sign in."""
