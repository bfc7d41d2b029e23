"""SCIM 2.0 (RFC 7643, RFC 7644): an identity provider manages people and groups, with tokens for this purpose only."""
