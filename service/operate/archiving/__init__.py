"""The archive of the embedded database: its log and files as they are written, and backups to replay the log upon."""
