"""Reading the parameters of OAuth requests, from the query or the form but never both, with limits."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, urlencode

from fastapi import Request

from service.platform.bodies import read_at_most
from service.platform.errors import BadRequest, TooLarge, UnsupportedMedia, require

FORM = "application/x-www-form-urlencoded"
MOST_FORM_BYTES = 64 * 1024
# More parameters than fit into the largest form.
MOST_PARAMETERS = 1500

Parameters = Sequence[tuple[str, str]]


def query_of(request: Request) -> Parameters:
    """Return the parameters with a value of a query (RFC 6749, section 3.1). Raises BadRequest for too many."""
    return _parse(request.scope["query_string"])


async def form_of(request: Request) -> Parameters:
    """Return a form's parameters with a value. Raises UnsupportedMedia if there is no form, TooLarge, BadRequest."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise UnsupportedMedia(f"This endpoint takes a form: send it with Content-Type: {FORM}.")
    content = await read_at_most(request.stream(), most_bytes=MOST_FORM_BYTES)
    too_large = TooLarge(f"The form is larger than {MOST_FORM_BYTES} bytes. Send fewer or shorter parameters.")
    return _parse(require(content, too_large))


def first_of(parameters: Parameters) -> dict[str, str]:
    return {name: values[0] for name, values in all_of(parameters).items()}


def all_of(parameters: Parameters) -> Mapping[str, list[str]]:
    values: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in parameters:
        values[name].append(value)
    return values


def with_parameters(uri: str, parameters: Parameters) -> str:
    """Add parameters to an address's query, leaving the rest unchanged, character by character."""
    joint = "" if uri.endswith(("?", "&")) else "&" if "?" in uri else "?"
    return f"{uri}{joint}{urlencode(parameters)}"


def _parse(content: bytes) -> Parameters:
    try:
        return parse_qsl(content.decode("latin-1"), max_num_fields=MOST_PARAMETERS)
    except ValueError as exc:
        raise BadRequest(f"The request has more than {MOST_PARAMETERS} parameters. Send fewer parameters.") from exc
