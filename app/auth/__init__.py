"""Sign-in. The browser holds an opaque cookie; all secrets stay on the server. `routes` redirects to the service and
back (OAuth 2.0 authorization code with PKCE), and protects addresses outside pages."""
