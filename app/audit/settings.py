"""What entries of the audit log say of an organization's settings."""

from collections.abc import Mapping
from typing import cast

_SAID = {
    "secondFactor": "second factor for {}",
    "serviceAccountsEnabled": "service accounts {}",
    "domain": "domain {}",
    "nameSet": "another name",
    "clientDocumentHosts": "hosts that describe clients: {}",
    "enableReranking": "reranking {}",
    "enableQueryModel": "queries read by the language model {}",
}
_SWITCHED = {"true": "on", "false": "off", "": "none"}


def describe_settings(details: Mapping[str, object]) -> str:
    """Return which of an organization's settings are what now; empty when an entry's details name none."""
    return ", ".join(said.format(_word(details[name])) for name, said in _SAID.items() if name in details)


def _word(value: object) -> str:
    words = ", ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value).lower()
    return _SWITCHED.get(words, words)
