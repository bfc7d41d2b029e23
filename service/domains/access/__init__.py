"""Who can read this, and what can they read: grants, checks, lists and explanations of access."""
