"""Understanding a search: conditions stated in a question, and the questions in a message."""
