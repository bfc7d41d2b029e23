"""The error of a command, of which only the message is printed."""


class CommandError(Exception):
    """The command can't be carried out; the message says what to do instead."""
