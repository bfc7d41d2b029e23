"""The settings that the embedded PostgreSQL is started with."""

FEWEST_CONNECTIONS = 200
MEBIBYTE = 1024**2
GIBIBYTE = 1024**3
LARGEST_WAL = 4 * GIBIBYTE
KEPT_WAL = 80 * MEBIBYTE


def server_parameters(
    memory_bytes: int,
    *,
    disk_bytes: int,
    segment_bytes: int,
    connections: int = FEWEST_CONNECTIONS,
    is_archived: bool = False,
) -> dict[str, str]:
    """Return the settings the index was measured with: a quarter of the memory (at most 2 GiB) for shared buffers.

    The write-ahead log takes a sixteenth of the disk at most. Its segments are kept and used again (`min_wal_size`), so
    that small writes go on when the disk is full: PostgreSQL panics when it can't make another segment. With
    `is_archived`, log that isn't archived yet is kept too, as much as that at most.

    The log holds neither statements nor row values, because both may hold contents and secrets.
    """
    log_bytes = max(min(disk_bytes // 16, LARGEST_WAL), 2 * segment_bytes)
    shared = max(min(memory_bytes // 4, 2 * GIBIBYTE), GIBIBYTE // 8)
    return {
        "shared_buffers": f"{shared // 1024}kB",
        "effective_cache_size": f"{memory_bytes // 2048}kB",
        "maintenance_work_mem": "256MB",
        "work_mem": "64MB",
        "random_page_cost": "1.1",
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "max_parallel_maintenance_workers": "0",
        "max_connections": str(connections),
        "max_wal_size": f"{log_bytes // MEBIBYTE}MB",
        "min_wal_size": f"{min(log_bytes, KEPT_WAL) // MEBIBYTE}MB",
        "autovacuum_naptime": "15s",
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
        "max_slot_wal_keep_size": f"{log_bytes // MEBIBYTE}MB",
        "summarize_wal": "on" if is_archived else "off",
    }
