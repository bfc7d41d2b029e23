"""Files in other files: the entries of archives and the attachments of mails become documents of their own."""
