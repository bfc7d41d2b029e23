"""Reading conversations by the rights of now: what may no longer be read is withheld."""
