"""Signs of a query: "a phrase", -word, NOT word, OR and field:value."""
