"""Sign-in: a browser has an opaque cookie, and all secrets stay on this side. `routes` redirects to the service and
back (OAuth 2.0 authorization code with PKCE), and protects the addresses that aren't pages."""
