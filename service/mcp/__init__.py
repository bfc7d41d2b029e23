"""The Model Context Protocol: agents of elsewhere search, read and ask here as the person who let them. Every call is
an operation of the API, done by the same rules for the same caller; nothing here decides who may read what.
https://modelcontextprotocol.io, revisions 2026-07-28 and 2025-11-25."""
