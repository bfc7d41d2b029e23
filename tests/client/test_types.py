"""Type checks of the client in both modes."""

import itertools
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from carrel import Carrel

BEGINNING = """
from typing import reveal_type
from carrel import AsyncCarrel, Carrel
from carrel.wire.search import SearchMode
blocking, awaiting = Carrel(), AsyncCarrel()
"""
REVEALED: dict[str, str] = tomllib.loads(Path(__file__).with_name("types.toml").read_text())
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
    file = tmp_path / "uses.py"
    revealing = [f"reveal_type({expression})" for expression in REVEALED]
    file.write_text("\n".join([BEGINNING, *revealing, *RIGHT, *WRONG, UNKNOWN]))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    messages = [entry["message"] for entry in json.loads(done.stdout)["generalDiagnostics"]]
    revealed = [message.split(' is "', 1)[1].rstrip('"') for message in messages if message.startswith("Type of")]
    assert revealed == list(REVEALED.values())
    assert any('No parameter named "nope"' in message for message in messages)
    refused = [match[1] for message in messages if (match := re.search(r'to parameter "(\w+)"', message))]
    assert sorted(refused) == sorted(itertools.chain(*WRONG.values()))


def test_a_text_that_is_no_choice_is_an_error() -> None:
    with Carrel("svc_key_x") as client, pytest.raises(ValueError, match="'HYBRID', 'LEXICAL' or 'SEMANTIC'"):
        client.search.search_document_catalog("x", mode="lexical")
