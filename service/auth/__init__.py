"""Authentication and authorization: who calls, with which scopes, and which operations that opens."""
