"""Results counted by their kind, collection, owner and year."""
