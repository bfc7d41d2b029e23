"""The queue of jobs in the database, and the workers."""
