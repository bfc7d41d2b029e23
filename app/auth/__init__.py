"""Signing in: a person's browser holds an opaque cookie, and everything that is secret stays on this side.

`routes` sends people to the service and takes them back (OAuth 2.0 authorization code with PKCE), as the `application`
that the workbench is there; `sessions` keeps who is signed in, `current` tells a page who that is, and the `gate` lets
nobody else have what lies beside pages.
"""
