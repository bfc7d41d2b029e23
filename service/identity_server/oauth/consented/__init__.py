"""People's consents to applications: listing and revoking."""
