"""The tables, a module for each subject; queries import them from here."""
