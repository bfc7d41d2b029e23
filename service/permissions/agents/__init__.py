"""Agents deployed to a reader."""
