"""Loading: runs planned, started, watched, and run by schedule, and what they could not take."""
