"""Documents that wait to be indexed: claiming, renewing and measuring them."""
