"""Sharing a conversation: the people who may read it, besides the person it belongs to."""
