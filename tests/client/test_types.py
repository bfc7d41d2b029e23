"""What a type checker knows of the client, in both modes."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from carrel import Carrel
from carrel.resources import _choices

CODE = """
from typing import reveal_type
from carrel import AsyncCarrel, Carrel
from carrel.wire.search import SearchMode
blocking, awaiting = Carrel(), AsyncCarrel()
reveal_type(blocking.catalog.get_document("x"))
reveal_type(awaiting.catalog.get_document("x"))
reveal_type(blocking.catalog.with_raw_response.get_document("x"))
reveal_type(awaiting.catalog.with_raw_response.get_document("x"))
reveal_type(blocking.admin.users.list())
reveal_type(awaiting.admin.users.list())
reveal_type(blocking.catalog.download_document("x"))
reveal_type(awaiting.catalog.download_document("x"))
reveal_type(blocking.admin.directory.plan(users="users.csv"))
reveal_type(awaiting.admin.directory.plan(users="users.csv"))
reveal_type(blocking.agents.send_and_wait("x", "?"))
reveal_type(awaiting.agents.send_and_wait("x", "?"))
reveal_type(next(blocking.agents.stream("x", "?")))
reveal_type(awaiting.agents.stream("x", "?"))
reveal_type(blocking.agents.fetch_response("x"))
reveal_type(awaiting.conversations.list())
reveal_type(blocking.me())
reveal_type(blocking.catalog.delete_document)
blocking.catalog.get_document(nope=1)
blocking.search.search_document_catalog("x", mode="LEXICAL", resource_types=["BOX_FILE"])
blocking.search.search_document_catalog("x", mode=SearchMode.SEMANTIC)
blocking.search.search_document_catalog("x", mode="lexical")
awaiting.catalog.list_documents(resource_types=["BOX_FILES"])
blocking.admin.access.list_resources(order="NAMES", action="WRITE")
awaiting.admin.service_account_tokens.mint("x", "x", scopes=["catalog"])
"""
WRONG = {"mode", "resource_types", "order", "action", "scopes"}
EXPECTED = [
    "GetDocumentResponse",
    "Coroutine[Any, Any, GetDocumentResponse]",
    "RawResponse[GetDocumentResponse]",
    "Coroutine[Any, Any, RawResponse[GetDocumentResponse]]",
    "Pager[ListedUser, AdminUsersListResponse]",
    "AsyncPager[ListedUser, AdminUsersListResponse]",
    "Download",
    "Coroutine[Any, Any, AsyncDownload]",
    "DirectoryPlan",
    "Coroutine[Any, Any, DirectoryPlan]",
    "Reply",
    "Coroutine[Any, Any, Reply]",
    "TextDelta | Restarted | Reply",
    "AsyncStream[TextDelta | Restarted | Reply]",
    "RunningJob | CompletedJob | FailedJob",
    "AsyncPager[Conversation, ListConversationsResponse]",
    "MeResponse",
    "(document_id: UUID | str, *, user_email: str | None = None) -> DeleteDocumentResponse",
]


def test_types_of_both_modes(tmp_path: Path) -> None:
    """An operation has its parameters in every mode, and its result as that mode gives it."""
    file = tmp_path / "uses.py"
    file.write_text(CODE)
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    messages = [entry["message"] for entry in found["generalDiagnostics"]]
    revealed = [message.split(' is "', 1)[1].rstrip('"') for message in messages if message.startswith("Type of")]
    assert revealed == EXPECTED
    assert any('No parameter named "nope"' in message for message in messages)
    refused = [match[1] for message in messages if (match := re.search(r'to parameter "(\w+)"', message))]
    assert sorted(refused) == sorted(WRONG)


def test_choices_are_those_of_the_enums() -> None:
    """Each text that a type checker lets pass is an enum's, none is missing, and another is an error at runtime."""
    choices = [getattr(_choices, name) for name in vars(_choices) if name.startswith("Any")]
    assert len(choices) == 18
    for kind, texts in map(get_args, choices):
        assert list(get_args(texts)) == [member.value for member in kind]
    with Carrel("svc_key_x") as client, pytest.raises(ValueError, match="'HYBRID', 'LEXICAL' or 'SEMANTIC'"):
        client.search.search_document_catalog("x", mode="lexical")
