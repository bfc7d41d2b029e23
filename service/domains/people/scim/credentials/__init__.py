"""The tokens of identity providers, as the database has them."""
