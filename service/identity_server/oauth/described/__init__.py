"""Clients that documents describe."""
