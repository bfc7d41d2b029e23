"""Reading an unfinished reply in a thread of its own, because pages are drawn again and again and must not wait."""

import threading
from collections.abc import Callable, Iterable
from typing import TypeAlias
from uuid import UUID

from carrel import CarrelError, Reply, ReplyError, Restarted, TextDelta

Events: TypeAlias = Iterable[TextDelta | Restarted | Reply]


class ReplyReader:
    """Reads the reply to one message. `text` is the text so far; after `ended` nothing more comes.

    After the end the conversation has the reply, or why there is none; with a `problem` the connection is lost, while
    the agent continues.
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
        """Stop reading; the thread ends with the next event, and the agent continues."""
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
