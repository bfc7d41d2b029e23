"""Health: what works, what is running, and what needs attention."""
