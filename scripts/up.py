"""`python -m scripts.up start`: honcho with the Procfile, patient enough to let the service stop in its own time.

Honcho kills what has not ended after five seconds; the service may take longer to finish what it is doing and to stop
its database, which would then be left running.
"""

from honcho import command, manager

# More than the service gives to requests in flight (30 s), and then to its database.
STOPPING_SECONDS = 60


def main() -> None:
    """Be honcho, with its arguments."""
    manager.KILL_WAIT = STOPPING_SECONDS
    command.main()


if __name__ == "__main__":
    main()
