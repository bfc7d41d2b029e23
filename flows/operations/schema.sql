-- One ledger per (service, source). Losing it costs time, never correctness: what is in the catalog is the service's
-- to say, and every run asks it.
CREATE TABLE IF NOT EXISTS runs (
    run_key TEXT PRIMARY KEY,
    started_at REAL NOT NULL,
    finished_at REAL,
    process INTEGER NOT NULL,
    scan INTEGER NOT NULL
);
-- Digests of files, trusted while the file's status is the same (flows.operations.hashing says when).
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    hashed_at_ns INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS documents (
    run_key TEXT NOT NULL,
    external_id TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    scan INTEGER NOT NULL,
    payload TEXT NOT NULL,
    size INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    fingerprint TEXT NOT NULL,
    state TEXT NOT NULL,
    action TEXT,
    document_id TEXT,
    sent_bytes INTEGER NOT NULL DEFAULT 0,
    error_code TEXT,
    error_message TEXT,
    PRIMARY KEY (run_key, external_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS documents_state ON documents (run_key, state, bucket);
-- What of the source can't be a document at all: rows of a manifest, links that lead out of the folder.
CREATE TABLE IF NOT EXISTS problems (
    run_key TEXT NOT NULL,
    place TEXT NOT NULL,
    external_id TEXT,
    code TEXT NOT NULL,
    message TEXT NOT NULL
);
-- What the service refused for good: sent again only once something about it has changed, or when asked to.
CREATE TABLE IF NOT EXISTS refusals (
    external_id TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    error_code TEXT NOT NULL,
    error_message TEXT NOT NULL
) WITHOUT ROWID;
