"""The Model Context Protocol: external agents search, read and ask as the person who authorized them. Every call is an
operation of the API, with equal rules for an equal caller; access is never decided here.
https://modelcontextprotocol.io, revisions 2026-07-28 and 2025-11-25."""
