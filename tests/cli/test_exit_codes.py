"""How `carrel` ends says what to change, whoever finds it wrong: the command itself or the service."""

import re
from uuid import uuid4

import pytest

from tests.harness.services import ADMIN_EMAIL

NOBODYS = str(uuid4())
OF_NOBODY = {"CARREL_API_KEY": f"svc_key_{'unknown' * 6}"}
AWAY = {"CARREL_BASE_URL": "http://127.0.0.1:9"}
WITHOUT_KEY = {"CARREL_API_KEY": None}
SDK_WORDS = re.compile("base_url|api_key|[a-z]_[a-z]+: |=…")
ABOUT_NOTHING = ("access", "explain", "--resource", NOBODYS, "--who", ADMIN_EMAIL)


@pytest.mark.parametrize(
    "arguments",
    [
        ("collections", "show", NOBODYS),
        ("collections", "create", "x" * 2000),
        ("sync", "show", "Elsewhere"),
        ("sync", "watch", NOBODYS),
        ("reindex", NOBODYS),
        ("reindex", "catalog:", "--model", "no such model"),
        ("search", "noon", "--collection", "Elsewhere"),
        ("search", "noon", "--collection", NOBODYS),
        ("search", "noon", "--limit", "0"),
        ("search", "noon", "--as", "nobody@example.test"),
        ABOUT_NOTHING,
        ("upload", "elsewhere", "--direct"),
    ],
)
def test_what_is_to_be_changed_in_the_command_ends_it_with_2(run, arguments: tuple[str, ...]) -> None:
    """A name or an id that nothing has, and what isn't valid, whether here or by the service's word."""
    ended = run(*arguments)
    assert ended.code == 2, ended
    assert ended.err
    assert not SDK_WORDS.search(ended.err), ended


@pytest.mark.parametrize(
    ("arguments", "changes", "code"),
    [
        (("collections", "list"), OF_NOBODY, 3),
        (("search", "noon"), OF_NOBODY, 3),
        (("reindex", NOBODYS), OF_NOBODY, 3),
        (ABOUT_NOTHING, OF_NOBODY, 3),
        (("collections", "list"), AWAY, 4),
        (("sync", "show", "x"), AWAY, 4),
        (ABOUT_NOTHING, AWAY, 4),
        (("collections", "list"), WITHOUT_KEY, 2),
        (("reindex", "x"), WITHOUT_KEY, 2),
        (("collections", "list"), {"CARREL_BASE_URL": "carrel.example"}, 2),
    ],
)
def test_wrong_settings_have_their_codes(run, arguments, changes, code):
    ended = run(*arguments, **changes)
    assert (ended.code, "CARREL_API_KEY" in ended.err) == (code, "CARREL_API_KEY" in changes), ended
    assert not SDK_WORDS.search(ended.err), ended
