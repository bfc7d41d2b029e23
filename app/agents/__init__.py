"""Agents: what they are told, what they answer from, and who may use them."""
