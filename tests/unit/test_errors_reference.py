"""docs/errors.md, help topics, the service's errors and the command line's exit codes agree."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from app.documentation import ROOT, DocumentationPage, contents, page_html, read_page
from app.navigation import FOR_ADMINS, FOR_ALL, FOR_EDITORS
from app.ui.notices import help_address_of_code, topic_of_page
from carrel.wire.formats import REASONS, count_reasons
from cli.exit_codes import MEANINGS, ExitCode
from scripts import errors_reference
from scripts.refusals import FORWARDED, Module, Source, Unseen
from service.text.extraction.failures import FailureCode
from tests.harness.cases import cases, document
from tests.harness.parsing import parse_python

HEAD = "from service.platform import errors\nfrom service.platform.errors import BadRequest, Conflict, NotFound\n"


@pytest.fixture(scope="module")
def source() -> Source:
    source = Source()
    refusals = list(source.refusals())
    source.refusals = lambda: iter(refusals)
    return source


def read(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str, str]]:
    path = tmp_path / "made_up.py"
    path.write_text(HEAD + source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "made_up", raising=False)
    return [(one.status, one.code, one.message) for one in Source([Module(path, root=tmp_path)]).refusals()]


def test_the_page_is_what_the_code_says(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each code has an explanation; `make docs` updates the page."""
    monkeypatch.setattr(errors_reference, "Source", lambda: source)
    page = errors_reference.PAGE.read_text()
    assert page == errors_reference.reference()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [row for row in rows if not any(letter.isalpha() for letter in row.split("|")[2])] == []
    assert set(MEANINGS) == set(ExitCode)


def test_what_is_named_apart_is_there(source: Source) -> None:
    refusals = list(source.refusals())
    assert set(FailureCode.__args__) <= {one.code for one in refusals}
    modules = {one.module for one in refusals}
    named = (*errors_reference.ELSEWHERE, *errors_reference.REPLIES)
    assert [name for name in named if not any(f"{one}.".startswith(f"{name}.") for one in modules)] == []
    assert {(module.name, getattr(node, "name", "")) for module in source.modules for node in module.nodes} >= FORWARDED


def test_codes_and_messages_are_told_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = document("refusals.py.txt").decode()
    assert sorted(map(list, read(source, tmp_path, monkeypatch))) == cases("refusals_of_a_module")


@pytest.mark.parametrize("source", cases("what_can_not_be_told_is_said"))
def test_what_can_not_be_told_is_said(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unseen, match=r"made_up\.py:\d+"):
        read(source, tmp_path, monkeypatch)


HELPERS = {"help_address": 0, "help_link": 1, "show_help": 1}
"""The functions with a topic argument, and the position."""


def topics(source: str) -> Iterator[str]:
    for node in ast.walk(parse_python(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in HELPERS:
            topic = (node.args + [word.value for word in node.keywords])[HELPERS[node.func.id]]
            if isinstance(topic, ast.Constant):
                yield str(topic.value)


def leads_somewhere(topic: str) -> bool:
    name, _, anchor = topic.partition("#")
    page = read_page(name)
    return page is not None and (not anchor or anchor in page.anchors)


def reasons() -> set[str]:
    codes = set(get_args(FailureCode))
    for path in (ROOT / "flows" / "operations").rglob("*.py"):
        for node in ast.walk(parse_python(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="Problem") | ast.Attribute(attr="Problem"), keywords=keywords):
                    found = [word.value for word in keywords if word.arg == "code"]
                case ast.ClassDef(name=name, body=body) if name.endswith("Error"):
                    assigned = [each for each in body if isinstance(each, ast.Assign)]
                    found = [each.value for each in assigned if ast.unparse(each.targets[0]) == "code"]
                case ast.FunctionDef(name="_reason" | "_path_problem"):
                    returned = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
                    found = [value.elts[0] for value in returned if isinstance(value, ast.Tuple)]
                case _:
                    continue
            codes |= {each.value for each in found if isinstance(each, ast.Constant)}
    return codes


@pytest.fixture(scope="module")
def pages() -> list[DocumentationPage]:
    return [page for _section, found in contents() for page in found]


def test_every_topic_in_the_workbench_is_there() -> None:
    found = [topic for path in (ROOT / "app").rglob("*.py") for topic in topics(path.read_text())]
    assert found
    assert [topic for topic in found if not leads_somewhere(topic)] == []


def test_every_page_of_the_workbench_has_help() -> None:
    sections = [entries for pages in (FOR_ALL, FOR_EDITORS, FOR_ADMINS) for entries in pages.values()]
    titles = ["Home", *(title for entries in sections for _name, title, *_ in entries)]
    assert [title for title in titles if topic_of_page(title) is None] == []
    assert topic_of_page("No such page") is None


def test_every_reason_has_an_entry_that_says_what_to_do() -> None:
    found = reasons()
    assert {"file_corrupt", "row_invalid", "link_broken", "file_changing", "connection_lost", "file_missing"} <= found
    assert sorted(found - REASONS.keys()) == sorted(REASONS.keys() - read_page("troubleshooting").anchors) == []
    assert count_reasons({"file_encrypted": 1_200, "of_tomorrow": 1}) == "1,200 with a password, 1 of_tomorrow"


def test_a_code_leads_to_what_to_do_or_else_to_what_it_says() -> None:
    assert help_address_of_code("storage_full") == "/help/troubleshooting#storage_full"
    assert help_address_of_code("collection_owner_required") == "/help/errors#collection_owner_required"
    assert help_address_of_code("no_such_code") is None


def test_links_between_pages_lead_to_pages(pages: list[DocumentationPage]) -> None:
    names = {page.name for page in pages}
    assert {"first-hour", "loading", "index", "changelog", "decisions/002-access-classes"} <= names
    links = [(page.name, link) for page in pages for link in re.findall(r'<a href="([^"]*)', page.body)]
    inside = [(name, link.removeprefix("/help/")) for name, link in links if link.startswith("/help/")]
    assert len(inside) > 100
    assert [(name, topic) for name, topic in inside if not leads_somewhere(topic)] == []
    assert [(name, link) for name, link in links if not link.startswith(("/help/", "#", "https:", "http:"))] == []


def test_a_page_has_each_anchor_once_and_fetches_and_runs_nothing(pages: list[DocumentationPage]) -> None:
    for page in pages:
        doubled = {anchor for anchor in page.anchors if page.body.count(f' id="{anchor}"') != 1}
        fetching = [mark for mark in ("<script", 'src="http', "<form") if mark in page_html(page)]
        assert (doubled, fetching) == (set(), []), page.name
    assert any('src="/help/pages/search.png"' in page.body for page in pages)


@pytest.mark.parametrize(
    "name", ["../README", "..", "reference/client", "pages/../../x", "decisions/../loading", "/etc"]
)
def test_no_name_leads_out_of_the_documentation(name: str) -> None:
    assert read_page(name) is None
