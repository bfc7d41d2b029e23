"""A process that has imported the command line, and forks for each command: its start takes most of a command's time.

A command is a process of its own all the same, with its own environment, folder and streams.
"""

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

ANSWER_BYTES = 1 << 20


def main() -> None:
    """Carry out what comes through standard input, a socket, one command after the other, until it is closed."""
    app = import_module("cli.app")
    for place, _ in app.COMMANDS.values():
        import_module(place.partition(":")[0])
    import_module("carrel._client")
    with socket.socket(fileno=os.dup(0)) as asking:
        while True:
            message, streams, *_ = socket.recv_fds(asking, ANSWER_BYTES, 3)
            if not message:
                return
            child = os.fork()
            if child == 0:
                _run(json.loads(message), streams)
            for stream in streams:
                os.close(stream)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            asking.sendall(str(code).encode())


def _run(asked: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Become the command, and end as it does."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["carrel", *asked["arguments"]]
    code = 70
    try:
        code = import_module("cli.app").run()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
