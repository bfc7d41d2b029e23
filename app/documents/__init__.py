"""Documents: what they are, how far they are indexed, and a few of one's own loaded."""
