"""A reply as it grows, read by a thread of its own: a page is drawn again and again, and never waits for it."""

import threading
from collections.abc import Callable, Iterable
from typing import TypeAlias
from uuid import UUID

from carrel import CarrelError, Reply, ReplyError, Restarted, TextDelta

Events: TypeAlias = Iterable[TextDelta | Restarted | Reply]


class ReplyReader:
    """The reply to one message. `text` is how far it is, `ended` that it needs no more looking at.

    After the end the conversation has the reply, or why there is none; with a `problem` the way to it is cut, and the
    agent goes on.
    """

    def __init__(self, message_id: UUID, events: Callable[[UUID], Events]) -> None:
        self.message_id = message_id
        self.text = ""
        self.problem: CarrelError | None = None
        self.ended = False
        self.left = False
        self._events = events
        # Nobody has to wait for it when the workbench is stopped: the service goes on, and has the reply.
        self._thread = threading.Thread(target=self._follow, name=f"reply-{message_id}", daemon=True)

    def begin(self) -> "ReplyReader":
        """Begin to read, from the reply's beginning."""
        self._thread.start()
        return self

    def leave(self) -> None:
        """Look at it no further; the thread ends with the next sign of life, and the agent goes on."""
        self.left = True

    def _follow(self) -> None:
        try:
            self._read()
        except ReplyError:
            pass  # the conversation says why
        except CarrelError as error:
            self.problem = error
        finally:
            self.ended = True

    def _read(self) -> None:
        for event in self._events(self.message_id):
            match event:
                case TextDelta():
                    self.text += event.text
                case Restarted():
                    self.text = ""
                case Reply():
                    self.text = event.text
            if self.left:
                return
