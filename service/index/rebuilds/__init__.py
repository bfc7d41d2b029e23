"""Building a second index while the old index stays in use, and swapping the two."""
