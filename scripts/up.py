"""`python -m scripts.up start`: honcho with the Procfile, patient enough to let the service stop in its own time.

Honcho kills what has not ended after five seconds; the service may take longer to finish what it is doing and to stop
its database, which would then be left running.
"""

import signal
import sys

from honcho import command, manager

# More than the service gives to requests in flight (30 s), and then to its database.
STOPPING_SECONDS = 60


def main() -> None:
    """Be honcho, with its arguments; being stopped by Ctrl-C is no failure, which make would report."""
    manager.KILL_WAIT = STOPPING_SECONDS
    try:
        command.main()
    except SystemExit as end:
        sys.exit(0 if end.code == 128 + signal.SIGINT else end.code)


if __name__ == "__main__":
    main()
