"""Search: what is asked, under which conditions, and what is found."""
