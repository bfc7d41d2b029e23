"""Agents: their settings, their conversations, their replies, and the quality of these."""
