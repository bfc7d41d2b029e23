"""Begins and ends alerts in the caller's transaction, and sends messages by mail and webhook."""
