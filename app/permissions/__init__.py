"""Permissions: readers of a resource, reasons, and changes."""
