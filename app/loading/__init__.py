"""Loading: planning, starting and watching runs, schedules, and the quarantine."""
