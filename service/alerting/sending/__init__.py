"""Sending messages by rules: by webhook and by mail, with retries for a day."""
