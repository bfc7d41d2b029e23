"""Syncs from document databases: settings, runs and reports."""
