"""Agents: their settings, and to whom they are deployed."""
