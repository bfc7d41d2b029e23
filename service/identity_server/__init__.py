"""The identity server: sign-in, OAuth 2.0, identity providers and sessions. Other packages use its `interface`."""
