"""Building an index anew beside the old one, and swapping them."""
