"""Forms of what runs: their fields, the job that a person has described in them, and what is missing of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import streamlit as st

from app.ui.pickers import drop_choice

READERS = "start.readers"
"""The key of the field for who may read what is loaded."""


@dataclass(frozen=True, slots=True)
class Job:
    """A flow with its parameters."""

    flow: str
    parameters: Mapping[str, Any]

    @property
    def options(self) -> Mapping[str, Any]:
        """The options among the parameters."""
        return self.parameters.get("options") or {}

    def as_plan(self) -> "Job":
        """Return the dry run of an upload, which sends and deletes nothing."""
        return Job(self.flow, {**self.parameters, "dry_run": True})


@dataclass(frozen=True, slots=True)
class Missing:
    """What a form doesn't say yet, and what to do."""

    message: str
    hint: str


CREDENTIAL = Missing(
    "A password or a query doesn't belong into an address: everybody who looks at the run would see it.",
    "Leave it out; what carries out the runs has credentials in its environment.",
)


def batch() -> str:
    """Return the key of the present form, which changes when something was started, so that its fields are empty.

    It is also the key of the start, so that one sent twice starts one run.
    """
    return st.session_state.setdefault(_batch_key(), uuid4().hex)


def begin_anew() -> None:
    """Empty the fields of the present form."""
    st.session_state.pop(_batch_key(), None)
    drop_choice(READERS)


def field(name: str, value: object = None) -> str:
    """Return the key of a field of the present form, which begins with `value` if it wasn't filled with another."""
    key = f"{name}-{batch()}"
    if value is not None and key not in st.session_state:
        st.session_state[key] = value
    return key


def _batch_key() -> str:
    """Forms at other addresses have fields of their own."""
    return ".".join(["start.batch", *(st.query_params.get(name, "") for name in ("schedule", "from"))])
