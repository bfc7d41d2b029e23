"""`python -m scripts.settings_reference`: write docs/settings.md from the settings classes themselves."""

from pathlib import Path

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from app.settings import WorkbenchSettings
from carrel.wire.schemas import descriptions_of
from flows.settings import FlowSettings
from service.platform.settings import Settings

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
ROOMS: dict[str, type[BaseSettings]] = {
    "The service": Settings,
    "The flows": FlowSettings,
    "The workbench": WorkbenchSettings,
}


def reference() -> str:
    """Return the page: a list a room, an item a setting."""
    parts = [
        "# Settings\n",
        "After this page you know every setting: an environment variable. `make docs` writes this page.\n",
    ]
    for title, room in ROOMS.items():
        described = descriptions_of(room)
        rows = [_row(name, field, described[name]) for name, field in room.model_fields.items()]
        parts.append("\n".join([f"## {title}\n", *rows]) + "\n")
    return "\n".join(parts)


def _row(name: str, field: FieldInfo, description: str) -> str:
    variable = field.validation_alias if isinstance(field.validation_alias, str) else f"CARREL_{name.upper()}"
    return f"- `{variable}`: {description}{_default(field)}"


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return " Default: by machine."
    if field.default in (None, (), {}, "") or "Secret" in str(field.annotation):
        return ""
    return f" Default: `{field.default}`."


if __name__ == "__main__":
    PAGE.write_text(reference())
