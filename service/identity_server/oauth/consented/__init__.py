"""The consents that people gave to applications, listed and withdrawn."""
