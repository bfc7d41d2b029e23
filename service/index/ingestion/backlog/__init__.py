"""Documents waiting to be indexed: claiming, renewing and measuring them."""
