"""Agents: their instructions, their collections, and who may use them."""
