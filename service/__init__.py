"""The Carrel service, in layers: a package imports only from those that come before it in this list.

platform      settings, database, files, logs, errors: what any service needs
text          text from files, chunks, vectors; knows no database
schema        the tables
migrations    from one version's tables to the next's
identity      organizations, users, groups, credentials
auth          who calls, and what the caller may call
audit         the audit log's entries
permissions   who may read what
index         brings the index to the documents' newest versions
runtime       the parts that a running service holds, and its queue of jobs
web           HTTP: connections, bodies, routes, errors, pages, metrics
domains       the operations of the API, a package for each subject
operate       start-up, commands, backup, status: what operators use

onnxruntime reports its use to its maker's hosts unless told otherwise before it is first imported, and keeps a number
of the machine in the home folder. Nothing here asks for that, so importing this package declines it."""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
