"""Options of runs, chosen by people and the workbench, and passed as parameters of the flows."""

import json
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from carrel.wire.fields import must_fit
from flows.operations.sources.documents import Access, Defaults
from flows.operations.sources.exclusions import FileSelection

CATALOG = "catalog:"
"""The name of the catalog where a collection's name is expected."""

_Named = Annotated[str | None, AfterValidator(lambda name: name or None)]


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _SourceOptions(Options):
    metadata: dict[str, str] = Field(default_factory=dict, description="Custom metadata of every document.")
    include: list[str] = Field(
        default_factory=list, description="Patterns of files to load although their type is skipped by default."
    )
    exclude: list[str] = Field(default_factory=list, description="Patterns of files to skip.")
    hidden: bool = Field(default=False, description="Also load files and folders whose names begin with a dot.")

    @property
    def files(self) -> FileSelection:
        return FileSelection(tuple(self.include), tuple(self.exclude))


class UploadOptions(_SourceOptions):
    """Options of a bulk upload. Access, metadata and collection are defaults for manifest rows without values."""

    collection: _Named = Field(default=None, description="Name or id of a collection to add every document to.")
    allowed_users: list[str] | None = Field(default=None, description="Email addresses of readers.")
    allowed_groups: list[str] | None = Field(default=None, description="Names or ids of groups of readers.")
    internal_public: bool | None = Field(default=None, description="Everyone in the organization can read.")
    read_pictures: bool | None = Field(default=None, description="Read text in images inside files (OCR).")
    upload_as_user_email: _Named = Field(default=None, description="Upload as this user; the key must allow it.")
    retry_refused: bool = Field(default=False, description="Send refused documents again even if they are unchanged.")
    wait_for_index: bool = Field(default=True, description="Wait until the documents are searchable.")
    delete_missing: bool = Field(
        default=False, description="Delete documents of earlier runs that are gone from the source."
    )
    delete_limit_percent: int = Field(
        default=20, ge=0, le=100, description="Deletion limit of a run (percent of the source's documents)."
    )

    def defaults(self) -> Defaults:
        """Return the access, metadata and collection of documents whose source gives none."""
        access = Access.of(self.allowed_users, self.allowed_groups, internal_public=self.internal_public)
        return Defaults(
            access=Access(assumed=True) if access == Access() else access,
            metadata=self.metadata,
            collection=self.collection,
            read_pictures=self.read_pictures,
            hidden=self.hidden,
            files=self.files,
        )


class SyncOptions(Options):
    launch: bool = Field(default=True, description="Start a run. Otherwise report the current or last run.")
    wait_for_end: bool = Field(
        default=True, description="Wait until the run ends. Otherwise it continues in the background."
    )


class CollectionOptions(_SourceOptions):
    collection: str = Field(description="Name or id of the collection.")
    wait_for_index: bool = Field(default=True, description="Wait until the added documents are searchable.")


class ReindexOptions(Options):
    everything: bool = Field(default=False, description="Every document, not only changed documents.")
    model: str | None = Field(default=None, description="Rebuild the whole index with this embedding model.")
    force: bool = Field(default=False, description="With a model: finish without documents that fail.")
    wait_for_end: bool = Field(default=True, description="Wait until it is done; otherwise it continues.")

    _has_one_scope = must_fit(
        lambda options: not (options.everything and options.model is not None),
        "a new model re-indexes every document, so use only one of both options",
    )
    _force_has_model = must_fit(lambda options: options.model is not None or not options.force, "force needs a model")


def options_for_ledger(source: str, options: UploadOptions | CollectionOptions) -> str:
    """Return a run's options for the ledger, to start a run with equal options from elsewhere."""
    place = source if "://" in source else str(Path(source).expanduser().absolute())
    return json.dumps({"source": place, "options": options.model_dump(mode="json")})
