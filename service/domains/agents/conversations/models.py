"""Values passed between the modules of conversations, and the variables a program gives an agent."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection as Connection

from carrel.wire.messages import InputVariable
from service.audit.service import Origin
from service.auth.callers import Caller
from service.domains.agents.conversations.reading.queries import list_names
from service.permissions.rights import unknown_document
from service.platform.errors import BadRequest, FieldError
from service.platform.networks import Sender


@dataclass(frozen=True, slots=True)
class Message:
    """A person's message to an agent, in a conversation (None: a new conversation). `variables` are filled in later."""

    agent_id: UUID
    text: str
    conversation_id: UUID | None = None
    variables: Sequence[InputVariable] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """A running turn with its attempt number (0: no attempt yet), for a worker to answer."""

    organization_id: UUID
    conversation_id: UUID
    turn_id: UUID
    turn_no: int
    attempt: int
    agent_id: UUID
    message: str
    principal_id: UUID
    credential_id: UUID
    acting_through_id: UUID | None
    request_id: str | None
    collection_ids: Sequence[UUID] | None
    address: str | None
    device: str | None

    @property
    def origin(self) -> Origin:
        """The message's sender, for the audit log."""
        sender = Sender(self.address, self.device)
        return Origin(self.principal_id, self.credential_id, self.acting_through_id, self.request_id, sender)


MOST_CHARACTERS = 20_000
MOST_OF_A_NAME = 200
VARIABLE = re.compile(r"\{\{([^{}]{1,300})\}\}")


async def fill_in(connection: Connection, caller: Caller, *, message: Message) -> str:
    """Return the text with documents' names for variables, unused names last. 404 without READ, 400 if too long."""
    variables = message.variables
    if not variables:
        return message.text
    ids = {document_id for variable in variables for document_id in variable.ids}
    names = await list_names(connection, caller, document_ids=ids)
    if len(names) != len(ids):
        raise unknown_document()
    # Short quoted names: the author of a document's name must not write in place of the sender.
    plain = {key: " ".join(re.sub("[“”]", "", name).split())[:MOST_OF_A_NAME] for key, name in names.items()}
    values = {
        variable.name: ", ".join(f"“{plain[item]}”" for item in dict.fromkeys(variable.ids)) for variable in variables
    }
    if len(values) != len(variables):
        raise _refuse("Two input variables have the same name. Send each once.", "must have different names")
    found = [match[1].strip() for match in VARIABLE.finditer(message.text)]
    lines = [f"{name}: {value}" for name, value in values.items() if name not in found]
    # Measured first: a message with a variable a thousand times would take gigabytes.
    growth = sum(len(values.get(name, "")) for name in found)
    if len(message.text) + growth + sum(map(len, lines)) > MOST_CHARACTERS:
        raise _refuse(
            f"The message is longer than {MOST_CHARACTERS:,} characters with the names of its documents. Send fewer.",
            "too long",
        )
    return "\n".join([VARIABLE.sub(lambda match: values.get(match[1].strip(), match[0]), message.text), *lines])


def _refuse(message: str, reason: str) -> BadRequest:
    return BadRequest(message, details=[FieldError("inputVariables", reason)])
