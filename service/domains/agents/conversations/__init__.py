"""Conversations with agents: messages, the jobs that answer them, streams, feedback."""
