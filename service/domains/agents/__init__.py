"""Agents: settings, conversations, replies, and the quality of replies."""
