"""Variables of a message: their documents' names take their places before the message is kept."""

import re
from collections.abc import Mapping

from sqlalchemy.ext.asyncio import AsyncConnection

from carrel.wire.conversations import SendMessageRequest
from service.auth.callers import Caller
from service.domains.conversations.reading.queries import list_names
from service.domains.documents.rights import unknown_document
from service.platform.errors import BadRequest, FieldError

MOST_CHARACTERS = 20_000
VARIABLE = re.compile(r"\{\{([^{}]{1,300})\}\}")


async def fill_in(connection: AsyncConnection, caller: Caller, *, request: SendMessageRequest) -> str:
    """Return the message of a request with the names of documents for its variables.

    Raises NotFound for a document that the caller may not READ, BadRequest for a name given twice, and for a message
    that becomes too long.
    """
    variables = request.input_variables or []
    if not variables:
        return request.message
    ids = {document_id for variable in variables for document_id in variable.ids}
    names = await list_names(connection, caller, document_ids=ids)
    if len(names) != len(ids):
        raise unknown_document()
    values = {variable.name: ", ".join(f"“{names[one]}”" for one in variable.ids) for variable in variables}
    if len(values) != len(variables):
        raise _refuse("Two input variables have the same name. Send each once.", "must have different names")
    return _filled(request.message, values)


def _filled(message: str, values: Mapping[str, str]) -> str:
    used = set[str]()

    def value_of(match: re.Match[str]) -> str:
        name = match[1].strip()
        used.update({name} & values.keys())
        return values.get(name, match[0])

    text = VARIABLE.sub(value_of, message)
    text = "\n".join([text, *(f"{name}: {value}" for name, value in values.items() if name not in used)])
    if len(text) > MOST_CHARACTERS:
        raise _refuse(
            f"The message is longer than {MOST_CHARACTERS:,} characters with the names of its documents. Send fewer.",
            "too long",
        )
    return text


def _refuse(message: str, reason: str) -> BadRequest:
    return BadRequest(message, details=[FieldError("inputVariables", reason)])
