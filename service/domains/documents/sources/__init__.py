"""Sources of documents for runs, and the items that could not be loaded."""
