"""`python -m scripts.errors_reference`: write docs/errors.md from where the service makes its errors."""

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import get_args

from carrel.errors import ERRORS_BY_STATUS, APIError, ServerError
from cli.exit_codes import MEANINGS
from scripts.refusals import GAP, Refusal, Source
from service.domains.agents.answering import failures
from service.text.extraction.failures import FailureCode

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"

# Errors that no body of v0 or v1 holds: those of pages, of OAuth, of commands beside the service, and of indexing,
# whose reasons are in `indexing`.
ELSEWHERE = (
    "service.domains.oversight.audit_log.erasure",
    "service.index.ingestion.indexing",
    "service.identity_server.oauth.account",
    "service.identity_server.oauth.account_factors",
    "service.identity_server.oauth.authorize",
    "service.identity_server.oauth.confirming",
    "service.identity_server.oauth.consents",
    "service.identity_server.oauth.describing",
    "service.identity_server.oauth.endpoints",
    "service.identity_server.requests",
    "service.identity_server.oauth.upstream",
    "service.identity_server.oauth.visits",
    "service.web.pages",
    "service.identity_server.signin",
)
# Why there is no reply of an agent: made while nobody waits, kept, and told to whoever asks.
REPLIES = ("service.domains.agents.conversations.jobs",)
# What those say that are put together at run time, or say too many things for a table.
SAID = {
    "invalid_filter": "The filter with an unknown field or a value of another type.",
    "invalid_fields": "The change with an unknown field or a taken name.",
    "invalid_metadata": "The key that is not a field of the schema, or the value of another type.",
    "invalid_request": "The invalid member of the request, its query or its body, and the reason.",
}
# What several codes say: not found by an id, or a file that can't be read, about which troubleshooting says more.
_NONE = "Nothing has this id, or you may not see it."
_UNREADABLE = "The file can't be read: see [what to do](troubleshooting.md#why-a-document-was-not-loaded)."
_ABSENT = re.compile(r"(There is|You have|You made) no such [^.:]*\.( [A-Z].*)?")
_SENTENCE = re.compile(r"(?<=[a-z0-9)…]\.) (?=[A-Z`])")


OPENING = f"""# Errors

After this page you can handle every error of the API. `make docs` writes this page. Errors of `/api/v0/` and `/api/v1/`
have this form:

```json
{{
  "error": {{
    "message": "There is no such document. Check the id with search or catalog/listDocuments, or upload it first.",
    "code": "document_not_found",
    "requestId": "0199f3c2-7a51-7d3e-9a63-4f1c2d5e6b70"
  }}
}}
```

Programs branch on `code`, which stays; `message` says what to do, and may change. `details` name each wrong member.
`requestId`, also the header `X-Request-Id`, finds the request in the service's log. Headings name the class in
[the SDK](sdk.md#when-something-goes-wrong).

Repeat a request after 408, 429, 5xx and the 409 `concurrent_change`, after the seconds of `Retry-After`. The SDK does
so by itself, except after a 507: make room first. Other errors stay until the request, or the state it is about,
changes.

The tables have the beginning of each message of a code, with `{GAP}` for a value. [OAuth's endpoints](oauth.md) and
[syncs](docstore-sync.md) have their own errors.
"""
OF_REPLIES = """
## Replies of agents

A message without a reply has one of these codes: on v0 in a 503, on v1 as `errorCode` of the message's job, in the SDK
in a `ReplyFailedError` (for `reply_withheld` a `ReplyWithheldError`). The SDK does not try again: the service has. A
reply can also fail with a 503 of the service, such as `embeddings_unavailable`. See also
[troubleshooting](troubleshooting.md#answers-of-agents).

| code | what it says |
|---|---|
"""
OF_COMMANDS = """
## How `carrel` ends

| exit code | what it means |
|---|---|
"""


def reference() -> str:
    """Return the page: a table a status, a row a code; then replies, and the command line's exit codes."""
    source = Source()
    found = [one for one in source.refusals() if not _is_of(one, ELSEWHERE)]
    told = sorted((one for one in found if not _is_of(one, REPLIES)), key=lambda one: one.status)
    parts = [OPENING, *(_status(status, rows) for status, rows in groupby(told, lambda one: one.status))]
    of_models = [
        Refusal(failures.__name__, 503, one["code"], re.sub(r"\{.*?\}", GAP, one["message"]))
        for one in failures.SAID.values()
    ]
    replies = _rows([*(one for one in found if _is_of(one, REPLIES)), *of_models])
    withheld = [_row(code, [message]) for code, message in source.reply_codes().items()]
    codes = [f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items()]
    return "".join([*parts, OF_REPLIES, _lines([*replies, *withheld]), OF_COMMANDS, _lines(codes)])


def _is_of(refusal: Refusal, modules: Iterable[str]) -> bool:
    return any(f"{refusal.module}.".startswith(f"{module}.") for module in modules)


def _status(status: int, refusals: Iterable[Refusal]) -> str:
    kind = ERRORS_BY_STATUS.get(status, ServerError if status >= 500 else APIError)
    return f"\n## {status}: {kind.__name__}\n\n| code | what it says |\n|---|---|\n{_lines(_rows(refusals))}"


def _rows(refusals: Iterable[Refusal]) -> list[str]:
    said: dict[str, dict[str, None]] = {}
    for one in refusals:
        said.setdefault(one.code, {})[SAID.get(one.code, one.message)] = None
    absent = {code for code, messages in said.items() if all(map(_ABSENT.fullmatch, messages))}
    together = {_NONE: absent, _UNREADABLE: said.keys() & set(get_args(FailureCode))}
    alone = sorted(said.keys() - set().union(*together.values()))
    rows = [_row("`, `".join(sorted(codes)), [text]) for text, codes in together.items() if codes]
    return [*(_row(code, said[code]) for code in alone), *rows]


def _row(code: str, messages: Iterable[str]) -> str:
    begun = dict.fromkeys(_SENTENCE.split(message)[0].replace("|", "&#124;") for message in messages)
    return f"| `{code}` | {'<br>'.join(begun)} |"


def _lines(rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(reference())
