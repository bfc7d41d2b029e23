"""Chat: conversations with agents, growing replies, and sources."""
