"""A Redis for tests: its protocol and its scripts over real connections, without a server to install."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from fakeredis import TcpFakeServer


@contextmanager
def shared_store(port: int = 0) -> Iterator[int]:
    """Yield the port a store answers on, a free one unless it is given; it is gone after the block."""
    server = TcpFakeServer(("127.0.0.1", port))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
