"""Shared parts of the workbench's pages: dialogs, tables, marks, errors."""
