"""Upload forms: multipart parts to validated models."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import Request
from pydantic import BaseModel, ValidationError

from carrel.wire.uploads import UploadFileForm
from service.runtime import Runtime
from service.web.guidance import refuse_members
from service.web.multipart import Received, receive, uploads_folder


@asynccontextmanager
async def receive_form(
    request: Request, runtime: Runtime, *, file_part: str, form: type[BaseModel]
) -> AsyncGenerator[Received]:
    """Receive a form whose text parts are the fields of `form`, its file on disk until the block ends."""
    folder = uploads_folder(runtime.settings)
    allowed = frozenset(field.alias or name for name, field in form.model_fields.items())
    limit = runtime.settings.max_upload_bytes
    async with receive(request, folder=folder, file_part=file_part, max_file_bytes=limit, allowed=allowed) as parts:
        yield parts


def upload_form(fields: dict[str, str]) -> UploadFileForm:
    """Validate the parts of uploadFile; 400 naming each part that is missing or wrong."""
    try:
        return UploadFileForm.model_validate(fields)
    except ValidationError as error:
        raise refuse_members(error.errors(include_url=False), UploadFileForm) from error
