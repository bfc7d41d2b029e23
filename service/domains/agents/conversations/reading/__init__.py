"""Reading conversations with current rights: a reply is withheld if the caller can't READ a document behind it."""
