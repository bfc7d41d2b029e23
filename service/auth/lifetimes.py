"""Lifetimes of codes and tokens (seed, "Limits")."""

from datetime import timedelta

CODE = timedelta(minutes=10)
ACCESS_TOKEN = timedelta(hours=1)
REFRESH_TOKEN = timedelta(days=30)

# When something was last used is noted no more often.
LAST_USED_PRECISION = timedelta(minutes=1)

# A client's two tabs may refresh at once: the second within this time has lost a race, and stolen nothing.
RACE = timedelta(seconds=10)
