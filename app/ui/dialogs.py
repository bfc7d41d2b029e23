"""Dialogs for all pages: confirming an action, and showing a secret once."""

import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Literal, ParamSpec, cast

import streamlit as st

from app.formatting import one_line
from app.labels import PRINCIPALS
from app.lookup import Principal
from app.ui.errors import FAILURES, Problem, problem_of
from app.ui.notices import drop_parameters, offer_action, show_table, show_text, show_warning
from app.ui.pickers import drop_choice
from app.ui.saving import ConflictError, forget_form, show_conflict
from carrel import APIError, CarrelError

P = ParamSpec("P")

_DONE, _PROBLEM = "confirm.done", "confirm.problem"
_OPEN, _LED, _SECRET, _PAGE = "dialog.open", "dialog.led", "dialog.secret", "dialog.page"
_DRAWN, _REPEATED, _SHOWN = "dialog.drawn", "dialog.repeated", "dialog.shown"
REPEATED_EVERY = 3.0
"""Seconds between attempts at an action in need of confirmation, also after each refusal."""
MOST_REPEATS = 200
_GONE = frozenset({"unknown_principal", "group_not_found"})
_log = logging.getLogger(__name__)


def confirm(
    title: str,
    consequence: str,
    *,
    action: Callable[[], object],
    doing: str = "",
    then: Callable[[], object] | None = None,
    leaving: Sequence[str] = (),
    name: str | None = None,
    names: Sequence[str] = (),
) -> None:
    """Show a dialog for confirming `action`; a `name` must be typed. Afterwards call `then` and drop `leaving`. `doing`
    labels the button, by default with the title's first word."""
    doing = doing or title.split(maxsplit=1)[0]
    for kept in (_DONE, _PROBLEM):
        st.session_state.pop(kept, None)

    def act() -> None:
        action()
        if then is not None:
            then()
        drop_parameters(*leaving)

    @st.dialog(title, on_dismiss=_forget_problem)
    def ask() -> None:
        if st.session_state.get(_DONE):
            st.rerun()
        show_text(consequence)
        if names:
            with st.container(height=240):
                show_table([item] for item in names)
        if name is not None:
            show_text(f"To continue, type its name: {one_line(name)}")
        typed = st.text_input("Name", key="confirm.name") if name is not None else None
        do, differs = partial(_do, act), name is not None and one_line(typed or "") != one_line(name)
        _show_problem(do)
        if _offer_buttons(doing, do, ("confirm.yes", "confirm.no"), cancel=_forget_problem, disabled=differs):
            st.rerun()

    ask()


_DANGEROUS = ("Delete", "Remove", "Revoke", "Deactivate", "Withdraw", "Offboard")


def _offer_buttons(
    doing: str, do: Callable[[], None], keys: tuple[str, str], *, cancel: Callable[[], None], disabled: bool
) -> bool:
    """Show a dialog's two buttons, in another colour for a destructive action. Return whether to cancel."""
    with st.container(key="danger" if doing.startswith(_DANGEROUS) else "doing"):
        sure, never = st.columns(2)
    sure.button(doing, key=keys[0], type="primary", width="stretch", disabled=disabled, on_click=do)
    return never.button("Cancel", key=keys[1], width="stretch", on_click=cancel)


def _do(action: Callable[[], object]) -> None:
    """Run the confirmed action in a callback, which a second click can't interrupt or repeat."""
    if not st.session_state.get(_DONE):
        st.session_state[_DONE] = _succeeds_or_keeps_problem(action)


def _succeeds_or_keeps_problem(action: Callable[[], object]) -> bool:
    _forget_problem()
    try:
        action()
    except Exception as error:  # noqa: BLE001 - _problem_of logs it
        st.session_state[_PROBLEM] = _problem_of(error)
        return False
    return True


def _problem_of(error: Exception) -> Problem:
    """Return an error of a dialog's action in words. Streamlit would show the error on the page behind the dialog."""
    if isinstance(error, FAILURES):
        return problem_of(error)
    if isinstance(error, ConflictError):
        return Problem(str(error))
    _log.error("a dialog's action failed", exc_info=error)
    todo = "The workbench's log has details. Close this dialog and try again."
    return Problem("This failed because of an error in the workbench.", (todo,))


def _show_problem(do: Callable[[], None]) -> None:
    problem: Problem | None = st.session_state.get(_PROBLEM)
    if problem is None:
        st.session_state.pop(_REPEATED, None)
        return
    problem.show()
    if problem.confirm_at is not None:
        st.session_state[_DRAWN] = time.monotonic()
        _repeat(do)


@st.fragment(run_every=REPEATED_EVERY)
def _repeat(do: Callable[[], None]) -> None:
    """Retry an action until identity is confirmed, at most `MOST_REPEATS` times; not in a closed dialog or drawing."""
    state = st.session_state
    problem, repeated = cast("Problem | None", state.get(_PROBLEM)), state.get(_REPEATED, 0)
    if problem is None or problem.confirm_at is None or repeated >= MOST_REPEATS:
        return
    if time.monotonic() - state[_DRAWN] < REPEATED_EVERY / 2:
        return
    state[_REPEATED] = repeated + 1
    do()
    after = cast("Problem | None", state.get(_PROBLEM))
    if after is None or after.confirm_at is None:
        st.rerun()


def _forget_problem() -> None:
    st.session_state.pop(_PROBLEM, None)


class NotYetError(CarrelError):
    """A value in a dialog's fields is missing or wrong; the message gives the remedy."""


@contextmanager
def naming(*asked: Principal) -> Generator[None]:
    """Convert an APIError in the block about deleted people and groups to a NotYetError with their names."""
    try:
        yield
    except APIError as error:
        said = " ".join((error.message, *(detail.message for detail in error.details)))
        gone = [principal for principal in asked if principal.id in said] if error.code in _GONE else []
        if not gone:
            raise
        names = ", ".join(f"the {PRINCIPALS[principal.kind]} “{one_line(principal.name)}”" for principal in gone)
        msg = f"Deleted by someone else: {names}. Choose others, or cancel and reload the list."
        raise NotYetError(msg) from error


def text_in(key: str, *, missing: str = "") -> str:
    """Return a field's text without outer spaces. Raises NotYetError with `missing`, if given, for an empty field."""
    text = str(st.session_state.get(key) or "").strip()
    if missing and not text:
        raise NotYetError(missing)
    return text


def dialog(
    title: str, name: str, *, of: str = "", width: Literal["small", "medium", "large"] = "small"
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorate a function for drawing a dialog's fields only while the dialog is open (`open_dialog(name)`). `of` names
    the id of its first argument, if the dialog must be open about this object."""

    def wrap(draw: Callable[P, None]) -> Callable[P, None]:
        @st.dialog(title, width=width, on_dismiss=close_dialog)
        @wraps(draw)
        def show(*args: P.args, **kwargs: P.kwargs) -> None:
            if not is_open(name):
                st.rerun()
            draw(*args, **kwargs)

        @wraps(draw)
        def show_if_open(*args: P.args, **kwargs: P.kwargs) -> None:
            if is_open(name, str(getattr(args[0], of)) if of else None):
                st.session_state[_SHOWN] = True
                show(*args, **kwargs)

        return show_if_open

    return wrap


def offer_dialog(label: str, name: str, *, key: str = "new.open", icon: str = "add") -> None:
    offer_action(label, open_dialog, name, key=key, icon=icon, kind="primary")


def open_dialog(name: str, about: str = "", choice: str = "") -> None:
    """Open the dialog `name`, in a button's callback. With `about`, it closes when the page's subject changes. `choice`
    is the key of a `pick_principals` in the dialog, which begins without a choice."""
    st.session_state[_OPEN] = (name, about)
    for kept in (_PROBLEM, _LED):
        st.session_state.pop(kept, None)
    forget_form(name)
    if choice:
        drop_choice(choice)


def is_open(name: str, about: str | None = None) -> bool:
    opened, of = st.session_state.get(_OPEN, ("", ""))
    return opened == name and about in {None, of}


def close_dialog() -> None:
    st.session_state.pop(_OPEN, None)
    _forget_problem()


def offer_submit(name: str, label: str, *, action: Callable[[], object], disabled: bool = False) -> None:
    """Show a dialog's two buttons. `action` runs in a callback, once for two clicks; NotYetError leaves it open."""
    show_conflict(name)
    submit, keys = partial(_submit, name, action), (f"{name}.submit", f"{name}.cancel")
    with st.container(key=f"{name}-actions"):  # fixed at the window's end
        _show_problem(submit)
        _offer_buttons(label, submit, keys, cancel=close_dialog, disabled=disabled)


def _submit(name: str, action: Callable[[], object]) -> None:
    if not is_open(name):
        # A second click has the address of before the first click: lead where the first click led.
        if (led := st.session_state.get(_LED)) is not None:
            st.query_params.from_dict(led)
        return
    if _succeeds_or_keeps_problem(action):
        close_dialog()
        st.session_state[_LED] = {param: st.query_params.get_all(param) for param in st.query_params}


@dataclass(frozen=True)
class Secret:
    """A secret to show once: `hint` is the purpose, `command` a line to try."""

    title: str
    value: str = field(repr=False)
    hint: str
    command: str = field(default="", repr=False)


def hold_secret(secret: Secret) -> None:
    """Keep a new secret until `show_held_secret` has shown it. Call in the callback that creates the secret: the next
    click can end a run of the page at any line, and a secret in a variable could be lost unseen."""
    st.session_state[_SECRET] = secret


def show_held_secret() -> None:
    """Show the held secret in a dialog, if any. Closing the dialog or leaving the page forgets it."""
    secret: Secret | None = st.session_state.get(_SECRET)
    if secret is None:
        return

    @st.dialog(secret.title, width="medium", dismissible=False)
    def tell() -> None:
        if _SECRET not in st.session_state:
            st.rerun()
        show_warning("Carrel shows this once. Copy it now: anyone who has it can use it.")
        st.code(secret.value, language=None, wrap_lines=True)
        show_text(secret.hint)
        if secret.command:
            st.code(secret.command, language="bash", wrap_lines=True)
        offer_action("I have copied it", drop_secret, key="secret.done", kind="primary")

    tell()


def drop_secret() -> None:
    st.session_state.pop(_SECRET, None)


def close_unshown() -> None:
    """Close a dialog missing from the drawn page: on the person's return to its view, the dialog would open unasked."""
    if _OPEN in st.session_state and not st.session_state.get(_SHOWN, False):
        close_dialog()


def close_on_page_change(page: str) -> None:
    st.session_state.pop(_SHOWN, None)
    if st.session_state.get(_PAGE) != page:
        drop_secret()
        close_dialog()
        st.session_state[_PAGE] = page
