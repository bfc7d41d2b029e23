"""How many chunks of an index space contain which term."""
