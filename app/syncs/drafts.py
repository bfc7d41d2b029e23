"""The values of a sync's form: source, documents, readers, and what happens to deleted documents."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.syncs.labels import LABELS
from carrel.wire.docstore import DocstoreConfigInfo


@dataclass(frozen=True)
class Draft:
    """The values of a sync's form."""

    name: str = ""
    source: str = ""
    body: str = ""
    title: str = ""
    updated: str = ""
    url: str = ""
    filter: str = ""
    users: Sequence[str] | None = None
    groups: Sequence[str] | None = None
    everybody: bool = False
    delete_missing: bool = True
    limit: int = 20
    address: str = field(default="", repr=False)

    def list_missing_fields(self) -> list[str]:
        """Return the labels of required fields that are empty."""
        wanted = {
            "syncName": self.name,
            "docstoreURI": self.address,
            "collectionName": self.source,
            "body": self.body,
            "sourceName": self.title,
        }
        return [LABELS[name] for name, value in wanted.items() if not value]

    def config(self) -> dict[str, Any]:
        """Return the sync's config for requests. Raises ValueError for a filter that is no JSON object."""
        return {
            "sync_name": self.name,
            "collection_name": self.source,
            "source_fields": {
                "body": self.body,
                "source_name": self.title,
                "source_system_updated": self.updated or None,
                "source_url": self.url or None,
            },
            "filter_expression": filter_of(self.filter),
            "allowed_users_email_addresses": list(self.users) if self.users is not None else None,
            "allowed_group_ids": list(self.groups) if self.groups is not None else None,
            "internal_public": True if self.everybody else None,
            "delete_missing": self.delete_missing,
            "delete_limit_percent": self.limit,
        }


def filter_of(text: str) -> dict[str, Any]:
    """Parse a filter that somebody typed. Raises ValueError with a sentence."""
    if not text.strip():
        return {}
    try:
        found: object = json.loads(text)
    except ValueError as error:
        msg = f"Which documents: this is no JSON ({error})."
        raise ValueError(msg) from error
    if not isinstance(found, dict):
        msg = 'Which documents: write an object, such as {"state": "published"}.'
        raise ValueError(msg)  # noqa: TRY004 - it is what somebody wrote, not what a program gave
    return found  # pyright: ignore[reportUnknownVariableType] - JSON's members have text for names


def draft_of(config: DocstoreConfigInfo) -> Draft:
    """Convert a sync's config to the values of the form; its address is never shown."""
    fields = config.source_fields
    return Draft(
        name=config.sync_name,
        source=config.collection_name,
        body=fields.body,
        title=fields.source_name,
        updated=fields.source_system_updated or "",
        url=fields.source_url or "",
        filter=json.dumps(config.filter_expression, ensure_ascii=False) if config.filter_expression else "",
        users=config.allowed_users_email_addresses,
        groups=None if config.allowed_group_ids is None else [str(one) for one in config.allowed_group_ids],
        everybody=bool(config.internal_public),
        delete_missing=config.delete_missing,
        limit=config.delete_limit_percent,
    )
