"""What ends with a group, or with a membership: who would read less, and deleting the group."""
