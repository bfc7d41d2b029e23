"""Northlight Ferries: a sample organization with documents, people and grants."""
