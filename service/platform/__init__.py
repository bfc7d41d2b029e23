"""The foundation of the service, independent of any subject: settings, database, files, logs, errors, the embedded
PostgreSQL."""
