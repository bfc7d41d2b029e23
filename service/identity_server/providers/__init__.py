"""The OpenID Connect providers of an organization, for admins."""
