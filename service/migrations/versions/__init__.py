"""The schema's migrations, a module for each version."""
