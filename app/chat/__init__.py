"""Chat: conversations with agents, replies as they grow, and their sources."""
