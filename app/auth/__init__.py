"""Signing in: a person's browser has an opaque cookie, and all secrets stay on this side.

`routes` redirects people to the service and back (OAuth 2.0 authorization code with PKCE), with the workbench as the
application of `registration`, and protects all addresses that aren't pages; `sessions` stores who is signed in, and
`current` returns that for a page.
"""
