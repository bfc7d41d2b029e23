"""Collecting files without any document version."""
