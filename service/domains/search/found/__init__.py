"""What a search has found: its scores once the question has moved, and its contents."""
