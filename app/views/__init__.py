"""The workbench's pages, a module for each."""
