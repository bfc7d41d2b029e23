"""Authentication and authorization: the caller, the scopes, and the operations open to the caller."""
