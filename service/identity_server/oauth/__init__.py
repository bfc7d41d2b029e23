"""The OAuth 2.0 authorization server: clients, consent, codes, tokens."""
