"""`python -m scripts.openapi_reference`: write service/web/openapi.json, which a service answers with, from the code.

Each path and each schema is a line, so that changes of different operations don't meet.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from scripts.openapi_description import complete
from service.main import create_app
from service.runtime import Runtime
from service.web.openapi import DOCUMENT


def reference() -> str:
    """Return the description of the API as the code has it."""
    # A description needs none of the parts of a running service.
    document = complete(create_app(cast("Runtime", None)).openapi())
    components = {name: _Lines(values) for name, values in document["components"].items()}
    document = {**document, "paths": _Lines(document["paths"]), "components": _Lines(components)}
    return f"{_write(_Lines(document))}\n"


class _Lines(dict[str, Any]):
    """An object whose members are written on lines of their own."""


def _write(value: object) -> str:
    if not isinstance(value, _Lines):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    members = (f"{json.dumps(name)}:{_write(member)}" for name, member in cast("Mapping[str, Any]", value).items())
    return "{\n" + ",\n".join(members) + "\n}"


if __name__ == "__main__":
    DOCUMENT.write_text(reference())
