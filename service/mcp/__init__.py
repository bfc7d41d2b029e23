"""The Model Context Protocol (https://modelcontextprotocol.io, revisions 2026-07-28 and 2025-11-25). Every call is an
operation of the API, with the rules for the person who authorized the agent; access is never decided here."""
