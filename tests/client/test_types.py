"""What a type checker knows of the client, in both modes."""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from carrel import Carrel

BEGINNING = """
from typing import reveal_type
from carrel import AsyncCarrel, Carrel
from carrel.wire.search import SearchMode
blocking, awaiting = Carrel(), AsyncCarrel()
"""
REVEALED = {
    'blocking.catalog.get_document("x")': "GetDocumentResponse",
    'awaiting.catalog.get_document("x")': "Coroutine[Any, Any, GetDocumentResponse]",
    'blocking.catalog.with_raw_response.get_document("x")': "RawResponse[GetDocumentResponse]",
    'awaiting.catalog.with_raw_response.get_document("x")': "Coroutine[Any, Any, RawResponse[GetDocumentResponse]]",
    "blocking.admin.users.list()": "Pager[ListedUser, AdminUsersListResponse]",
    "awaiting.admin.users.list()": "AsyncPager[ListedUser, AdminUsersListResponse]",
    'blocking.catalog.download_document("x")': "Download",
    'awaiting.catalog.download_document("x")': "Coroutine[Any, Any, AsyncDownload]",
    'blocking.admin.directory.plan(users="users.csv")': "DirectoryPlan",
    'awaiting.admin.directory.plan(users="users.csv")': "Coroutine[Any, Any, DirectoryPlan]",
    'blocking.agents.send_and_wait("x", "?")': "Reply",
    'awaiting.agents.send_and_wait("x", "?")': "Coroutine[Any, Any, Reply]",
    'next(blocking.agents.stream("x", "?"))': "TextDelta | Restarted | Reply",
    'awaiting.agents.stream("x", "?")': "AsyncStream[TextDelta | Restarted | Reply]",
    'blocking.agents.fetch_response("x")': "RunningJob | CompletedJob | FailedJob",
    "awaiting.conversations.list()": "AsyncPager[Conversation, ListConversationsResponse]",
    "blocking.me()": "MeResponse",
    "blocking.catalog.delete_document": (
        "(document_id: UUID | str, *, user_email: str | None = None) -> DeleteDocumentResponse"
    ),
}
RIGHT = [
    'blocking.search.search_document_catalog("x", mode="LEXICAL", resource_types=["BOX_FILE"])',
    'blocking.search.search_document_catalog("x", mode=SearchMode.SEMANTIC)',
]
# Calls with the parameter whose argument is wrong.
WRONG = {
    'blocking.search.search_document_catalog("x", mode="lexical")': ["mode"],
    'awaiting.catalog.list_documents(resource_types=["BOX_FILES"])': ["resource_types"],
    'blocking.admin.access.list_resources(order="NAMES", action="WRITE")': ["order", "action"],
    'awaiting.admin.service_account_tokens.mint("x", "x", scopes=["catalog"])': ["scopes"],
}
UNKNOWN = "blocking.catalog.get_document(nope=1)"


def test_types_of_both_modes(tmp_path: Path) -> None:
    """An operation has its parameters in every mode, and its result as that mode gives it."""
    file = tmp_path / "uses.py"
    revealing = [f"reveal_type({expression})" for expression in REVEALED]
    file.write_text("\n".join([BEGINNING, *revealing, *RIGHT, *WRONG, UNKNOWN]))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    messages = [entry["message"] for entry in found["generalDiagnostics"]]
    revealed = [message.split(' is "', 1)[1].rstrip('"') for message in messages if message.startswith("Type of")]
    assert revealed == list(REVEALED.values())
    assert any('No parameter named "nope"' in message for message in messages)
    refused = [match[1] for message in messages if (match := re.search(r'to parameter "(\w+)"', message))]
    assert sorted(refused) == sorted(itertools.chain(*WRONG.values()))


def test_a_text_that_is_no_choice_is_an_error() -> None:
    with Carrel("svc_key_x") as client, pytest.raises(ValueError, match="'HYBRID', 'LEXICAL' or 'SEMANTIC'"):
        client.search.search_document_catalog("x", mode="lexical")
