"""Binary codes of large spaces in the memory of a worker; each search brings them up to its own snapshot."""
