"""SCIM 2.0 (RFC 7643, RFC 7644): an identity provider keeps people and groups, by tokens that open nothing else."""
