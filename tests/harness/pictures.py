"""The pictures of pages in docs/pages: which code each shows, so that a picture older than its page is found."""

import ast
import hashlib
import json
from importlib.util import find_spec
from pathlib import Path

PICTURES = Path(__file__).parents[2] / "docs" / "pages"
DIGESTS = PICTURES / "digests.json"
# Components that every page shares: a change of them makes no picture old.
_SHARED = "app.ui"


def digest_of(view: str) -> str:
    """Return a digest of the code, without comments, of a page and of the modules of `app` that it imports."""
    page = ast.parse(_path_of(f"app.views.{view}").read_text("utf-8"))
    imports = (node for node in ast.walk(page) if isinstance(node, ast.ImportFrom) and node.module)
    modules = sorted(
        {node.module for node in imports if node.module.startswith("app.") and not node.module.startswith(_SHARED)}
    )
    parts = [ast.unparse(page), *(ast.unparse(ast.parse(_path_of(name).read_text("utf-8"))) for name in modules)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def write_digests(views: dict[str, str]) -> None:
    """Note the code of the page in each picture of docs/pages; `views` has the page of each name."""
    names = sorted(path.stem for path in PICTURES.glob("*.png"))
    digests = {name: [view := views[name.removesuffix("-dark")], digest_of(view)] for name in names}
    DIGESTS.write_text(json.dumps(digests, indent=1) + "\n", "utf-8")


def outdated() -> list[str]:
    """Return the names of pictures whose page has changed since."""
    digests: dict[str, list[str]] = json.loads(DIGESTS.read_text("utf-8"))
    return [picture for picture, (view, digest) in digests.items() if digest_of(view) != digest]


def _path_of(module: str) -> Path:
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin)
