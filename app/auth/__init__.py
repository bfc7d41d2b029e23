"""Sign-in by OAuth 2.0 (authorization code with PKCE). The browser holds an opaque cookie, the server all secrets."""
