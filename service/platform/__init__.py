"""The service's subject-independent foundation: settings, database, files, logs, errors, the embedded PostgreSQL."""
