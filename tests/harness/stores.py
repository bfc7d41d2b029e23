"""A Redis for tests: protocol and scripts over real connections, without a server to install."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from fakeredis import TcpFakeServer


@contextmanager
def shared_store(port: int = 0) -> Iterator[int]:
    """Run a store during the block, on a free port unless given; yield the port."""
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
