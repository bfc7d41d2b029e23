"""Parts of pages that Streamlit doesn't have: modules in `assets`, served from the workbench itself.

Streamlit serves files of components that installed packages declare. The workbench runs from its folder, so it
declares its own when one is drawn. Scripts within pages are refused by the Content-Security-Policy.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from streamlit.components import v2
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

_NAMES = ("rows", "page")
_MANIFEST = ComponentManifest("carrel", "1", [ComponentConfig(name, asset_dir="assets") for name in _NAMES])


def draw_rows(key: str, data: Mapping[str, Any]) -> list[int]:
    """Draw the rows of a list, as assets/rows.js says; return the numbers of the chosen ones."""
    state = _draw("rows", key=key, data=dict(data), on_selection_change=_ignore)
    return rows_chosen(state)


def rows_chosen(state: Any) -> list[int]:
    """Return the numbers of the chosen rows in the state of `draw_rows`."""
    held = cast("Mapping[str, Mapping[str, list[int]] | None]", state or {})
    return list((held.get("selection") or {}).get("rows") or [])


def complete_page() -> None:
    """Let keys lead to the page's first field and among results, and give roles to what Streamlit gives none."""
    _draw("page", key="carrel.page")


def _draw(name: str, **options: Any) -> Any:
    manager, component = get_bidi_component_manager(), f"carrel.{name}"
    if manager.get_component_asset_root(component) is None:
        manager.register_from_manifest(_MANIFEST, Path(__file__).parent)
    return v2.component(component, js=f"{name}.js", isolate_styles=False)(**options)


def _ignore() -> None:
    """Do nothing when rows are chosen: what draws them reads which ones."""
