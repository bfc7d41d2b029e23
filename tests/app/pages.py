"""A workbench page for tests: reading, and pressing buttons as a browser does, also in dialogs."""

import html
from typing import Any, Self
from uuid import uuid4

import pytest
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df
from streamlit.testing.v1 import AppTest

from tests.harness.cases import cases

HOSTILE: list[str] = cases("hostile_names")
HOSTILE_CASES = [*HOSTILE[:3:2], *(pytest.param(one, marks=pytest.mark.slow) for one in (HOSTILE[1], *HOSTILE[3:]))]
MARKUP = "<img src=x onerror=alert(1)> **b** https://evil.example :material/home:"
NOWHERE = "0198c5b0-0000-7000-8000-000000000000"
"""An id of no object."""
NOTHING = (NOWHERE, "nothing", "a\0b", "<img src=x>")
"""Values in addresses for missing objects."""
SECONDS = 60
FIELDS = ("text_input", "text_area", "selectbox", "radio", "number_input", "time_input", "toggle")


class Page(AppTest):
    """A page drawn by Streamlit's test runner that must never end in a traceback."""

    def _run(self, *args: Any, **options: Any) -> Self:
        super()._run(*args, **options)
        assert not self.exception
        return self

    @classmethod
    def _from_string(cls, script: str, **options: Any) -> Self:
        made = super()._from_string(script, **options)
        return cls(made._script_path, default_timeout=SECONDS, args=made.args, kwargs=made.kwargs)

    @property
    def shown(self) -> str:
        return "\n".join(element.proto.body for element in self.get("html"))

    @property
    def as_markdown(self) -> str:
        kinds = ("markdown", "caption", "title", "header", "subheader", "error", "warning", "info", "success", "toast")
        texts = [str(element.value) for kind in kinds for element in self.get(kind)]
        named = [str(element.label) for kind in ("expander", "button", "metric", "radio") for element in self.get(kind)]
        return "\n".join(texts + named + [str(element.proto.text) for element in self.get("progress")])

    def assert_shown_as_text(self, text: str = "") -> None:
        """Assert that a hostile text is shown literally, not as an element, link, icon or Markdown."""
        assert html.escape(text.partition("\n")[0]) in self.shown  # pages may show lines as one
        assert not [tag for tag in ("<script", "<img", "<iframe") if tag in self.shown]
        assert not [word for word in ("evil", "alert", "material/home", "a\n===") if word in self.as_markdown]

    @property
    def address(self) -> dict[str, str]:
        given = self.query_params.items()
        return {name: str(value[0] if isinstance(value, list) else value) for name, value in given}

    @property
    def metrics(self) -> dict[str, str]:
        return {metric.label: metric.value for metric in self.metric}

    @property
    def exported(self) -> str:
        return self.session_state["export.kept"].data.decode("utf-8-sig")

    @property
    def graph(self) -> str:
        return self.get("graphviz_chart")[0].proto.spec

    @property
    def secret(self) -> str:
        return self.code[0].value

    @property
    def kept(self) -> str:
        return repr({key: getattr(value, "__dict__", value) for key, value in self.session_state.items()})

    @property
    def texts(self) -> list[str]:
        return [one.value for one in self.text]

    @property
    def labels(self) -> list[str]:
        return [one.label for one in self.button]

    def rows(self, table: int = 0) -> list[dict[str, Any]]:
        return self.dataframe[table].value.to_dict("records")

    def column(self, name: str, table: int = 0) -> list[Any]:
        return [row[name] for row in self.rows(table)] if self.dataframe else []

    def cells(self, *names: str, table: int = 0) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in names) for row in self.rows(table)]

    def list_with(self, name: str) -> int:
        return next(number for number, shown in enumerate(self.dataframe) if name in shown.value)

    def choose(self, *numbers: int, table: int = 0) -> Self:
        chosen = {"rows": list(numbers or (0,)), "columns": [], "cells": []}
        self.session_state[self.dataframe[table].key] = {"selection": chosen}
        return self.run()

    def preview(self, document: str) -> str:
        """Return the preview of a document that the person goes to in the browser."""
        [key] = {one.proto.id.split("-", 2)[-1] for one in self.get("bidi_component") if "preview" in one.proto.id}
        self.session_state[key] = {"chosen": document}
        return self.run().shown.partition('class="carrel-preview"')[2]

    def field(self, label: str) -> Any:
        fields = [one for kind in FIELDS for one in self.get(kind)]
        found = [one for one in fields if one.label.startswith(label)]
        assert len(found) == 1, (label, [one.label for one in fields])
        return found[0]

    def find_button(self, label: str) -> Any:
        found = [one for one in self.button if one.label == label]
        assert len(found) == 1, (label, self.labels, self.shown)
        return found[0]

    def press(self, label: str) -> Self:
        return self.find_button(label).click().run()

    def press_key(self, key: str) -> Self:
        return self.button(key=key).click().run()

    def confirm(self, label: str) -> Self:
        return self.press(label).press_key("confirm.yes")

    def press_twice(self, label: str) -> Self:
        """Press a button twice, the second time before the browser shows the result."""
        self.find_button(label).click()
        sent, address = self._tree.get_widget_states(), dict(self.query_params)
        unpressed = [
            one for one in sent.widgets if one.WhichOneof("value") == "trigger_value" and not one.trigger_value
        ]
        for state in unpressed:  # of the buttons that nobody presses, a browser says nothing
            sent.widgets.remove(state)
        self.run()
        self.query_params.clear()
        self.query_params.update(address)
        return self._run(sent)

    def answer(self, opener: str, label: str) -> Self:
        """Press a button in the dialog opened by `opener`; open it again, because the runner draws the whole page."""
        self.find_button(label).click()
        return self.press(opener)


def new_word() -> str:
    """Return a random word of letters: search splits words at digits, and parts could match other documents."""
    return uuid4().hex[:6].translate(str.maketrans("0123456789", "ghijklmnop"))


def drawn(chart: Any) -> Any:
    return convert_arrow_bytes_to_pandas_df(chart.proto.datasets[0].data.data)


def reference(key: str) -> dict[str, str]:
    resource_type, _, resource_id = key.partition(":")
    return {"resource_type": resource_type, "resource_id": resource_id}
