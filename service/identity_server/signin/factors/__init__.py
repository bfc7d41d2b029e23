"""Second factors of people who sign in with a password: authenticator apps and recovery codes."""
