"""Help in place leads to headings and codes that the documentation has."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from app.documentation import ROOT, contents, page_html, read_page
from app.navigation import FOR_ADMINS, FOR_ALL, FOR_EDITORS
from app.ui.help import help_address_of_code, topic_of_page
from carrel.wire.formats import REASONS, count_reasons
from service.text.extraction.failures import FailureCode
from tests.harness.parsing import parse_python

HELPERS = {"help_address": 0, "help_link": 1, "show_help": 1}
"""The functions that take a topic, and which of their arguments it is."""
FLOWS = ROOT / "flows" / "operations"


def topics(source: str) -> Iterator[str]:
    """Yield the topics in the code of a module."""
    for node in ast.walk(parse_python(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in HELPERS:
            topic = (node.args + [word.value for word in node.keywords])[HELPERS[node.func.id]]
            if isinstance(topic, ast.Constant):
                yield str(topic.value)


def leads_somewhere(topic: str) -> bool:
    """Tell whether the documentation has the page of a topic, and the heading or code on it."""
    name, _, anchor = topic.partition("#")
    page = read_page(name)
    return page is not None and (not anchor or anchor in page.anchors)


def reasons() -> set[str]:
    """Return the codes for which runs keep a document out: those of unreadable files, and those of the flows."""
    codes = set(get_args(FailureCode))
    for path in FLOWS.rglob("*.py"):
        for node in ast.walk(parse_python(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="Problem"), keywords=keywords):
                    found = [word.value for word in keywords if word.arg == "code"]
                case ast.ClassDef(name=name) if name.endswith("Error"):
                    found = [one.value for one in node.body if isinstance(one, ast.Assign) and _names(one) == ["code"]]
                case ast.FunctionDef(name="_reason" | "_path_problem"):
                    found = [one.value.elts[0] for one in ast.walk(node) if _is_tuple_returned(one)]
                case _:
                    continue
            codes |= {one.value for one in found if isinstance(one, ast.Constant)}
    return codes


def _names(assignment: ast.Assign) -> list[str]:
    return [target.id for target in assignment.targets if isinstance(target, ast.Name)]


def _is_tuple_returned(node: ast.AST) -> bool:
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)


def test_every_topic_in_the_workbench_is_there() -> None:
    """Each link to help in the workbench's code leads to a page and a heading that exist."""
    found = [topic for path in (ROOT / "app").rglob("*.py") for topic in topics(path.read_text())]
    assert found
    assert [topic for topic in found if not leads_somewhere(topic)] == []


@pytest.mark.parametrize("topic", ["nowhere", "loading#no-such-heading"])
def test_a_topic_that_is_not_there_is_found(topic: str) -> None:
    """A missing page and a missing heading are told apart from those that exist."""
    assert list(topics(f"show_help('More', {topic!r})")) == [topic]
    assert not leads_somewhere(topic)


def test_every_page_of_the_workbench_has_help() -> None:
    """docs/workbench.md has a heading with the title of each page."""
    sections = [entries for pages in (FOR_ALL, FOR_EDITORS, FOR_ADMINS) for entries in pages.values()]
    titles = [title for entries in sections for _name, title, _icon in entries]
    assert [title for title in titles if topic_of_page(title) is None] == []
    assert topic_of_page("No such page") is None


def test_every_reason_has_an_entry_that_says_what_to_do() -> None:
    """Troubleshooting has a row for each code with which a document is kept out, and each has words that count it."""
    found = reasons()
    assert {"file_corrupt", "row_invalid", "link_broken", "file_changing", "connection_lost", "file_missing"} <= found
    page = read_page("troubleshooting")
    assert page
    assert sorted(found - REASONS.keys()) == sorted(REASONS.keys() - page.anchors) == []
    assert count_reasons({"file_encrypted": 1_200, "of_tomorrow": 1}) == "1,200 with a password, 1 of_tomorrow"


def test_a_code_leads_to_what_to_do_or_else_to_what_it_says() -> None:
    """Troubleshooting comes first, then the list of errors; a code that is in neither leads nowhere."""
    assert help_address_of_code("storage_full") == "/help/troubleshooting#storage_full"
    assert help_address_of_code("collection_owner_required") == "/help/errors#collection_owner_required"
    assert help_address_of_code("no_such_code") is None


def test_links_between_pages_lead_to_pages() -> None:
    """A link on a page of help leads to a page and a heading there, and no page links to a file."""
    pages = [page for _section, found in contents() for page in found]
    assert {"first-hour", "loading", "index", "changelog", "decisions/002-access-classes"} <= {
        one.name for one in pages
    }
    links = [(page.name, link) for page in pages for link in _links(page.body)]
    inside = [(name, link.removeprefix("/help/")) for name, link in links if link.startswith("/help/")]
    assert len(inside) > 100
    assert [(name, topic) for name, topic in inside if not leads_somewhere(topic)] == []
    others = ("/help/", "#", "https:", "http:")
    assert [(name, link) for name, link in links if not link.startswith(others)] == []


def test_each_anchor_is_on_its_page_once() -> None:
    """An anchor names one place, so that a link leads to the heading that it names."""
    for _section, pages in contents():
        for page in pages:
            doubled = {anchor for anchor in page.anchors if page.body.count(f' id="{anchor}"') != 1}
            assert doubled == set(), page.name


@pytest.mark.parametrize(
    "name", ["../README", "..", "reference/client", "pages/../../x", "decisions/../loading", "/etc"]
)
def test_no_name_leads_out_of_the_documentation(name: str) -> None:
    """A name is one of a page; nothing else of this machine is read."""
    assert read_page(name) is None


def test_a_page_fetches_and_runs_nothing() -> None:
    """No page has a script, a form or a picture from elsewhere."""
    for _section, pages in contents():
        for page in pages:
            shown = page_html(page)
            assert "<script" not in shown
            assert 'src="http' not in shown
            assert "<form" not in shown


def _links(body: str) -> list[str]:
    return [part.partition('"')[0] for part in body.split('<a href="')[1:]]


def test_the_folder_of_pictures_is_the_one_that_pages_show() -> None:
    """Pictures of pages lie where their addresses are served from."""
    page = read_page("first-hour")
    assert page
    assert 'src="/help/pages/search.png"' in page.body
    assert Path(ROOT / "docs" / "pages" / "search.png").exists()
