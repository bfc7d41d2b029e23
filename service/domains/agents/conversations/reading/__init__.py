"""Reading conversations with the rights of now: a reply that rests on a document the caller can't READ is withheld."""
