"""Sources that runs load documents from, and what of them could not be loaded."""
