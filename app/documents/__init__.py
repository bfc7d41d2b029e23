"""Documents: their state, how far they are indexed, and uploading a few of one's own."""
