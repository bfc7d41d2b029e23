"""The archive of the embedded database: log and files, archived continuously, and base backups for replay."""
