"""A hook of mkdocs.yml: bring pages from outside docs/ onto the site, and make the links of all pages lead there.

The pages are written for who reads them in the repository, so their links are between its files. On the site such a
link leads to the page that the file is there; a file that isn't on the site is named without a link.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# Where the files of the repository that don't lie in docs/ are on the site.
BROUGHT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    **{f"notebooks/{path.name}": f"notebooks/{path.name}" for path in sorted((ROOT / "notebooks").glob("*.ipynb"))},
}
LYING = {there: here for here, there in BROUGHT.items()}
LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<path>[^()\s#:]+)(?P<heading>#[^()\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that are brought from outside docs/."""
    for here, there in BROUGHT.items():
        files.append(File.generated(config, there, abs_src_path=str(ROOT / here)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - mkdocs' names
    """Return the page with its links leading to places of the site."""
    place = page.file.src_uri
    if place == "changelog.md":  # it names everything, and so would be the first answer to every search
        page.meta["search"] = {"exclude": True}
    folder = posixpath.dirname(LYING.get(place, f"docs/{place}"))

    def replace(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link["path"]))
        there = BROUGHT.get(target, target.removeprefix("docs/"))
        if files.get_file_from_path(there):
            return f"[{link['text']}]({posixpath.relpath(there, posixpath.dirname(place))}{link['heading'] or ''})"
        return link["text"] if (ROOT / target).exists() else link[0]

    return LINK.sub(replace, markdown)
