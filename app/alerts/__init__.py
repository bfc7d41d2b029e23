"""Alerts on the page Health: what is wrong, who is told, and what was sent."""
