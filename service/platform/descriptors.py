"""The limit of open files and sockets; the service's share comes first, so callers can't cut off the database."""

import os
import resource
from math import ceil

from service.platform.logs import logger
from service.platform.settings import Settings

# Standard streams, event loop, lock, log, model, listener; files that the start of PostgreSQL opens briefly; accepted
# connections that are closed in the same pass of the event loop.
OWN = 96
# Database connections other than for requests. Indexing has fewer than turns, because a turn is mostly embedding,
# without a transaction. Of the connections for jobs, one listens.
INDEXING_CONNECTIONS = 4
JOB_CONNECTIONS = 4
# With a single connection, a request that needs two would wait for itself, and all others for the slowest.
FEWEST_DATABASE_CONNECTIONS = 2
# The most connections that the client of an embeddings endpoint keeps.
ENDPOINT_CONNECTIONS = 100
# The most files that each has open at once: pipes and process of a reader; the model's endpoint and a database for a
# reply; the pools of MongoDB's driver for a sync; a file that a thread writes and a file that it reads.
OF_A_READER = 8
OF_A_REPLY = 4
OF_A_SYNC = 16
OF_A_THREAD = 2
# asyncio's own limit on executor threads.
MOST_THREADS = 32
# A connection is a socket and at most one file, which is sent or moved to the store.
OF_A_CONNECTION = 2
# Each connection costs some 20 kB, so a limit of a million files doesn't allow as many connections.
MOST_CONNECTIONS = 10_000
# With fewer, a single browser or upload blocks all other callers.
FEWEST_CONNECTIONS = 16
# With fewer, a workbench, a few people and a load at a time get in each other's way.
USEFUL_CONNECTIONS = 128

HOW_TO_RAISE = (
    "Raise it: `ulimit -n 65536` in a shell, LimitNOFILE=65536 in a systemd unit, --ulimit nofile=65536:65536 for a "
    "container."
)


def raise_limit() -> int:
    """Raise the process's soft limit of open files to the hard limit; return it, or a large number if unlimited."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else OWN + MOST_CONNECTIONS * 100


def part_of(settings: Settings, *, worker: int) -> Settings:
    """Return a worker's settings: a fair part of the limits shared by all workers."""

    def part(whole: int, *, least: int) -> int:
        return max(whole // settings.workers + (worker < whole % settings.workers), min(least, whole))

    return settings.model_copy(
        update={
            "database_pool_size": part(settings.database_pool_size, least=FEWEST_DATABASE_CONNECTIONS),
            "extraction_workers": part(settings.extraction_workers, least=1),
            "agent_workers": part(settings.agent_workers, least=1),
            "docstore_workers": part(settings.docstore_workers, least=0),
            "ocr_workers": part(settings.ocr_workers, least=0),
        }
    )


def database_connections(settings: Settings) -> int:
    """Return the most database connections of all workers, doubled to leave room for other clients."""
    requests = max(settings.database_pool_size, settings.workers * FEWEST_DATABASE_CONNECTIONS)
    return 2 * (requests + settings.workers * (INDEXING_CONNECTIONS + JOB_CONNECTIONS))


def reserved_descriptors(settings: Settings) -> int:
    return (
        OWN
        + settings.database_pool_size
        + (settings.database_pool_size + 1) * len(settings.database_replica_urls)
        + INDEXING_CONNECTIONS
        + JOB_CONNECTIONS
        + (ENDPOINT_CONNECTIONS if settings.embeddings_url else 0)
        + OF_A_READER * (settings.extraction_workers + settings.ocr_workers)
        + OF_A_REPLY * settings.agent_workers
        + OF_A_SYNC * settings.docstore_workers
        + OF_A_THREAD * min(MOST_THREADS, (os.cpu_count() or 1) + 4)
    )


def most_connections(settings: Settings, limit: int) -> int:
    """Return and log a worker's most connections. Raises ValueError, naming the needed limit of open files, if few."""
    reserved = reserved_descriptors(settings)
    fitting = (limit - reserved) // OF_A_CONNECTION
    if fitting < FEWEST_CONNECTIONS:
        needed = reserved + OF_A_CONNECTION * USEFUL_CONNECTIONS
        msg = f"The process may have {limit} files open, and the service needs {needed} or more. {HOW_TO_RAISE}"
        raise ValueError(msg)
    asked = ceil((settings.max_connections or 0) / settings.workers)
    wanted = asked or min(fitting, ceil(MOST_CONNECTIONS / settings.workers))
    most = min(fitting, wanted)
    if most < min(wanted, USEFUL_CONNECTIONS) or most < asked:
        logger.warning("few_connections", most=most, open_files=limit, reserved=reserved, hint=HOW_TO_RAISE)
    logger.info("open_files", limit=limit, reserved=reserved, most_connections=most)
    return most
