"""Sign-in with a password or at an identity provider, and browser sessions."""
