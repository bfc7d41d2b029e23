"""Sending messages by rules: by webhooks and by mail, each tried again for a day."""
