"""A progress bar for uploads, downloads, lists, evaluations and directory imports.

>>> from carrel.progress import ProgressBar
>>> client.catalog.upload_file("film.mp4", on_progress=ProgressBar("film.mp4", unit="B"))
>>> client.catalog.download_document(document_id).save("film.mp4", on_progress=ProgressBar("film.mp4", unit="B"))
>>> documents = client.catalog.list_documents().with_progress(ProgressBar("Documents")).to_frame()

Shown in notebooks and terminals; silent elsewhere, and without tqdm (the extra `progress`)."""

import html
import sys
from importlib import import_module
from typing import Any, TextIO

from carrel.directory.progress import Progress

__all__ = ["ProgressBar"]


class ProgressBar:
    """An `on_progress` that draws a bar, ended by the last item; the next call starts a new bar. `description` is shown
    before the bar, and `unit` after its numbers ("B" as kB and MB). `file` is the output in terminals."""

    def __init__(self, description: str = "", *, unit: str = "", file: TextIO | None = None) -> None:
        self._description = description
        self._unit = unit
        self._file = file
        self._bar: Any = None
        self._shown_description = ""

    def __call__(self, done: int | Progress, total: int | None = None) -> None:
        """Show `done` of `total`; None is an unknown total."""
        description = self._description
        if isinstance(done, Progress):
            description, done, total = done.stage.capitalize(), done.done, done.total
        if self._bar is not None and self._shown_description != description:
            self.close()
        if self._bar is None:
            self._bar = _open_bar(description, total, self._unit, self._file)
            self._shown_description = description
        if self._bar is None:
            return
        self._bar.total = total
        self._bar.update(done - self._bar.n)  # drawn at most ten times a second
        if done == total:
            self.close()

    def close(self) -> None:
        """Draw the bar a last time, and leave it on the screen."""
        if self._bar is not None:
            self._bar.refresh()
            self._bar.close()
            self._bar = None


def _open_bar(description: str, total: int | None, unit: str, file: TextIO | None) -> Any:
    try:
        tqdm = import_module("tqdm.std").tqdm
    except ImportError:
        return None
    unit_shown = f" {unit}" if unit not in {"", "B"} else unit
    options = {"desc": description, "total": total, "unit": unit_shown, "unit_scale": unit == "B"}
    if file is None and _is_notebook():
        return _notebook_kind(tqdm)(gui=True, **options)
    # With None, tqdm shows no bar in a file that is not a terminal.
    return tqdm(file=file or sys.stderr, disable=None, dynamic_ncols=True, **options)


def _is_notebook() -> bool:
    shell: Any = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def _notebook_kind(tqdm: Any) -> Any:
    """Return a bar shown as HTML in one output of a notebook; a saved notebook would lose widgets."""

    class NotebookBar(tqdm):
        monitor_interval = 0  # no monitor thread
        _shown: Any = None

        def display(self, msg: str | None = None, pos: int | None = None) -> None:
            del msg, pos
            text = self.format_meter(**{**self.format_dict, "ncols": 0})
            known = f'value="{self.n}" max="{self.total}"' if self.total else ""
            label = html.escape(text)
            bundle = {"text/plain": text, "text/html": f'<progress {known} aria-label="{label}"></progress> {label}'}
            if self._shown is None:
                self._shown = import_module("IPython.display").display(bundle, raw=True, display_id=True)
            else:
                self._shown.update(bundle, raw=True)

    return NotebookBar
