"""What any service needs and no subject owns: settings, database, files, logs, errors, the embedded PostgreSQL."""
