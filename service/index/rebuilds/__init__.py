"""Building an index again beside the old one, and swapping them."""
