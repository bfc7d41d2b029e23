"""The trash: deleted documents that their owners and admins can restore for some days."""
