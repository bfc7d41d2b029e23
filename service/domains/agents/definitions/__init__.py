"""Agents: settings and deployment to people and groups."""
