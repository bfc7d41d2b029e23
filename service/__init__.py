"""The Carrel service, in layers: a package imports only from packages above it in the list.

    platform      settings, database, files, logs, errors: the base of any service
    text          text from files, chunks, vectors; without a database
    schema        the tables
    migrations    from an earlier version's tables to the next
    identity      organizations, users, groups, credentials
    auth          callers, and the operations open to them
    audit         the audit log's entries
    permissions   access to resources
    index         brings the index to the documents' newest versions
    runtime       the parts of a running service, and its queue of jobs
    web           HTTP: connections, bodies, routes, errors, pages, metrics
    domains       the operations of the API, a package for each subject
    operate       start-up, commands, backup, status: for operators

Importing this package, before onnxruntime, turns off the reports of onnxruntime to its maker."""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
