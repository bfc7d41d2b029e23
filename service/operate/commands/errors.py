"""Why a command did nothing: its message is all that is shown."""


class CommandError(Exception):
    """What is asked can't be done; the message says what to do instead."""
