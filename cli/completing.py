"""Completion of names by the Tab key: one request for the first matches, and no completion when the request fails."""

import os
import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import carrel

MOST, SECONDS = 50, 2.0


def _completer(
    named_by: str, lists: Callable[["carrel.Carrel"], Callable[..., Iterable[Any]]], *, query: str = "query"
) -> Callable[[str], list[str]]:
    """Return a completer of names for the shell; an error gives none, since a message would disturb the typed line."""

    def complete(incomplete: str) -> list[str]:
        if not any(os.environ.get(name) for name in ("CARREL_API_KEY", "CARREL_ACCESS_TOKEN")):
            return []
        try:
            # `carrel` imports slow modules at their first use, and a completion without a credential needs none.
            with carrel.Carrel(timeout=SECONDS, max_retries=0) as client:
                # At most one page: islice ends before the list asks for the next page.
                listed = islice(lists(client)(**{query: incomplete.strip() or None}, page_size=MOST), MOST)
                found = [str(getattr(item, named_by)) for item in listed]
        except Exception:  # noqa: BLE001 - whatever it is
            return []
        return [incomplete + _escape(name.removeprefix(incomplete)) for name in found if name.startswith(incomplete)]

    return complete


def _escape(rest: str) -> str:
    return rest if os.environ.get("_CARREL_COMPLETE") != "complete_bash" else re.sub(r"([^\w@%+=:,./-])", r"\\\1", rest)


names_of_groups = _completer("name", lambda client: client.admin.groups.list)
names_of_accounts = _completer("email", lambda client: client.admin.service_accounts.list)
# Only an admin's key lists all agents.
names_of_agents = _completer("name", lambda client: client.admin.agents.list)
names_of_collections = _completer(
    "collection_name", lambda client: client.document_collections.list_document_collections, query="collection_name"
)
