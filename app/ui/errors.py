"""Errors in words, and pages closed to a person: the problem, a remedy, and the request id to quote."""

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import httpx
import streamlit as st

import carrel
from app import api
from app.auth.current import AWAY, PREFECT, SERVICE, offer_sign_in
from app.labels import label_of
from app.settings import settings
from app.ui.notices import help_address, help_address_of_code, show_empty, show_problem, show_warning
from carrel.errors import EditConflictError, InvalidClientError, SignInRequiredError
from carrel.wire.common import ErrorDetail
from flows.runs import NotServedError, PrefectAwayError, RunsError, UnknownError

T = TypeVar("T")

FAILURES = (carrel.CarrelError, RunsError)
"""Errors put into words by pages: of the service, and of Prefect for runs."""

ENDED = (SignInRequiredError, InvalidClientError)
"""Errors that end a sign-in: the tokens, or the workbench's registration, are refused. A new sign-in mends both."""

_UNAVAILABLE = frozenset({502, 503, 504})
_FIELD = re.compile(r"(^|; )([a-z][a-z_]+(?:\.[\w.]+)?): ")
"""The name of an argument refused by the SDK, before the reason."""

_AWAY = help_address("troubleshooting#the-service-is-busy-full-or-away")
_CONTINUES = (
    "Pages continue automatically when it answers. Send your last change again. If this takes long, tell the "
    "operator of Carrel."
)
_NO_RUNS = help_address("troubleshooting#signing-in-and-the-workbench")


@dataclass(frozen=True)
class Problem:
    """An error in words for a person, for showing later."""

    message: str
    notes: tuple[str, ...] = ()
    help_at: str | None = None
    confirm_at: str | None = None
    """The address for confirming the person's identity before another try."""

    def show(self) -> None:
        if self.confirm_at is None:
            show_problem(self.message, *self.notes, help_at=self.help_at)
        else:
            show_warning(self.message, *self.notes)
            st.link_button("Confirm that it is you", self.confirm_at, icon=":material/verified_user:")


def note_away(error: carrel.CarrelError | RunsError) -> None:
    """Note the unavailable part, if any, to redraw the page when it is back."""
    if isinstance(error, PrefectAwayError):
        st.session_state[AWAY] = PREFECT
    elif isinstance(error, carrel.APIConnectionError) or getattr(error, "status", 0) in _UNAVAILABLE:
        st.session_state[AWAY] = SERVICE


@contextmanager
def error_boundary() -> Generator[None]:
    """Show an error of the service or the network instead of the failed part, and end the page's run."""
    try:
        yield
    except ENDED:
        offer_sign_in("Your sign-in has ended.")
    except FAILURES as error:
        note_away(error)
        problem_of(error).show()
    else:
        return
    st.stop()


@contextmanager
def keep_problem(key: str, *others: type[Exception]) -> Generator[None]:
    """Keep an error in the session until `show_kept_problem`. `others` are shown unchanged, with their `problems`."""
    try:
        yield
    except FAILURES as error:
        st.session_state[key] = problem_of(error)
    except others as error:
        st.session_state[key] = Problem(str(error), getattr(error, "problems", ()))


def show_kept_problem(key: str, title: str = "") -> None:
    problem: Problem | None = st.session_state.pop(key, None)
    if problem is None:
        return
    if title:
        show_problem(title, problem.message, *problem.notes)
    else:
        problem.show()


def show_errors(work: Callable[[], T]) -> T:
    """Return the result of `work`; on an error, show it and end the page's run."""
    with error_boundary():
        return work()


def require_found(find: Callable[[], T | None], said: str, hint: str = "") -> T:
    """Return the object named in the page's address. If it is missing, say so and end the page's run."""
    if (found := show_errors(find)) is None:
        show_empty(said, hint) if hint else show_warning(said)
        st.stop()
    return found


def problem_of(error: carrel.CarrelError | RunsError) -> Problem:
    """Return an error as a title, an explanation and a request id for people."""
    match error:
        case RunsError():
            return _problem_of_runs(error)
        case SignInRequiredError() | InvalidClientError():
            return Problem("Your sign-in has ended.", ("Reload this page to sign in again.",))
        case carrel.APIConnectionError():
            return _problem_of_connection(error)
        case carrel.APIError(confirmation_url=str(address)):
            message = "Confirm your identity: this changes access or credentials."
            todo = "The confirmation opens in a new tab. After you confirm, Carrel makes the change."
            return Problem(message, (todo,), None, address)
        case carrel.APIError():
            message, *more = _message_of(error)
            request = (f"Request id: {error.request_id}",) if error.request_id else ()
            return Problem(message, (*more, *request), help_address_of_code(error.code))
        case _:
            return Problem(_FIELD.sub(lambda field: f"{field[1]}{label_of(field[2].partition('.')[0])}: ", str(error)))


def _problem_of_connection(error: carrel.APIConnectionError) -> Problem:
    if isinstance(error, carrel.APITimeoutError):
        return Problem("The service takes too long to answer.", (_CONTINUES,), _AWAY)
    if isinstance(error.__cause__, httpx.ConnectError):
        return Problem(f"The service at {settings().base_url} does not answer.", (_CONTINUES,), _AWAY)
    message = f"The service at {settings().base_url} closed the connection before its answer was complete."
    todo = f"The service is stopping, or has too many connections: see Health. {_CONTINUES}"
    return Problem(message, (todo,), _AWAY)


def line_of(error: carrel.CarrelError) -> str:
    """Return an error as a single line, for a table with a result per row."""
    match error:
        case carrel.APIConnectionError():
            return "The service does not answer. Try again in a moment."
        case carrel.APIError():
            return " ".join(_message_of(error))
        case _:
            return str(error)


def _message_of(error: carrel.APIError) -> tuple[str, ...]:
    """Return the service's message, or the messages about parts of the request if more detailed."""
    if isinstance(error, EditConflictError):
        return ("Someone else changed this, so nothing was saved. Review the values, and make your change again.",)
    parts = tuple(_describe_detail(detail) for detail in error.details)
    repeats = any(detail.message in error.message for detail in error.details)
    return parts if repeats else (error.message, *parts)


def _describe_detail(detail: ErrorDetail) -> str:
    part, _, field = detail.field.partition(".")
    return f"{field}: {detail.message}" if part == "customMetadata" and field else detail.message


def _problem_of_runs(error: RunsError) -> Problem:
    match error:
        case PrefectAwayError():
            away = f"Nothing answers at {settings().prefect_api_url}. Start it with: make up. This page then continues."
            return Problem("Prefect, which manages runs, does not answer.", (away,), _NO_RUNS)
        case NotServedError():
            start = "On a machine that can read the documents, run: python -m flows serve"
            return Problem("No flow server is running.", (start,), _NO_RUNS)
        case UnknownError():
            return Problem("This item no longer exists.", ("Go back to the list.",))
        case _:
            return Problem(str(error))


def require_admin() -> None:
    """End the page's run for everyone except admins. The service refuses too."""
    if not show_errors(api.me).is_admin:
        show_admins_only()
        st.stop()


def require_editor() -> None:
    """End the page's run for everyone except admins and editors of collections."""
    if not show_errors(api.me).is_admin and not show_errors(api.editable_collections):
        todo = "Ask an admin or an owner to make you an editor of a collection."
        _show_no_access("This page is for admins and for editors of a collection.", todo)
        st.stop()


def show_admins_only() -> None:
    _show_no_access("This page is for admins.", "Ask an admin of your organization for help.")


def _show_no_access(reason: str, todo: str) -> None:
    st.title("No access", anchor=False)
    show_empty(reason, todo)
