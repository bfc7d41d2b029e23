"""Lifetimes of codes and tokens (seed, "Limits")."""

from datetime import timedelta

CODE = timedelta(minutes=10)
ACCESS_TOKEN = timedelta(hours=1)
REFRESH_TOKEN = timedelta(days=30)

# The least time between two updates of when something was last used.
LAST_USED_PRECISION = timedelta(minutes=1)

# Two tabs of a client may refresh at once. A second use within this time is a lost race, not a theft.
RACE = timedelta(seconds=10)
