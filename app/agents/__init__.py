"""Agents: instructions, collections, and access."""
