"""Understanding what a search asks: the conditions that its question states, and the questions that a message has."""
