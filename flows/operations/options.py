"""What a person or the workbench can choose for a run; the flows take these as their parameters."""

from pydantic import BaseModel, ConfigDict, Field

from flows.operations.documents import Access, Defaults


class UploadOptions(BaseModel):
    """Options of a bulk upload. Access, metadata and collection are for documents whose manifest row says nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    collection: str | None = Field(default=None, description="Name or id of a collection to add every document to.")
    allowed_users: list[str] | None = Field(default=None, description="Email addresses of who may read.")
    allowed_groups: list[str] | None = Field(default=None, description="Names or ids of groups who may read.")
    internal_public: bool | None = Field(default=None, description="Everybody in the organization may read.")
    metadata: dict[str, str] = Field(default_factory=dict, description="Custom metadata of every document.")
    hidden: bool = Field(default=False, description="Also send files and folders whose name begins with a dot.")
    upload_as_user_email: str | None = Field(default=None, description="The user to upload as; the key must allow it.")
    retry_refused: bool = Field(default=False, description="Send what was refused before and is still the same.")
    wait_for_index: bool = Field(default=True, description="End only when what was sent can be searched.")

    def defaults(self) -> Defaults:
        """Return what documents get where the source says nothing. No access option: nothing is said of access."""
        given = (self.allowed_users, self.allowed_groups, self.internal_public) != (None, None, None)
        access = Access(
            users=tuple(sorted(set(self.allowed_users or ()))),
            groups=tuple(sorted(set(self.allowed_groups or ()))),
            internal_public=bool(self.internal_public),
        )
        return Defaults(
            access=access if given else None,
            metadata=self.metadata,
            collection=self.collection,
            hidden=self.hidden,
        )


class CollectionOptions(BaseModel):
    """Options of adding catalog documents to a collection."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    collection: str = Field(description="Name or id of the collection.")
    metadata: dict[str, str] = Field(default_factory=dict, description="Custom metadata of every document.")
    hidden: bool = Field(default=False, description="Also take files and folders whose name begins with a dot.")
    wait_for_index: bool = Field(default=True, description="End only when what was added can be searched.")
