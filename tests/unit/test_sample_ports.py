"""Before `make up` starts anything: are its ports free?"""

import socket

from sample.ports import find_taken_ports


def test_taken_port_is_named_with_the_settings_that_change_it() -> None:
    """Of three ports only the one somebody listens on is told, with what to set instead."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as other:
        taken, free = listener.getsockname()[1], other.getsockname()[1]
        other.close()
        environment = {
            "CARREL_PORT": str(free),
            "CARREL_APP_PORT": str(free),
            "PREFECT_API_URL": f"http://127.0.0.1:{taken}/api",
        }
        (line,) = find_taken_ports(environment)
    assert f"Port {taken}, for Prefect," in line
    assert "PREFECT_API_URL" in line
