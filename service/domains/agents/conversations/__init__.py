"""Conversations with agents: messages, the jobs for replies, streams, feedback."""
