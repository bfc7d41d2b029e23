"""Begins and ends alerts in the transaction of the caller, and sends them by mail and webhook."""
