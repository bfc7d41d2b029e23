"""The service's errors as the protocol has them: of tools in their result, of everything else by a code."""

from collections.abc import Awaitable
from typing import TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, TextContent
from pydantic import ValidationError
from starlette.requests import Request

from service.platform.errors import (
    DATABASE_ERRORS,
    ServiceError,
    answer_for_database,
    from_validation,
    internal_error,
)
from service.platform.logs import logger, redact_credentials, request_id

Answer = TypeVar("Answer")
DEFECT = 500


async def translate(request: Request, answer: Awaitable[Answer]) -> Answer:
    """Wait for an answer; whatever goes wrong is a ServiceError, and a defect is logged and says nothing of itself."""
    try:
        return await answer
    except ServiceError:
        raise
    except ValidationError as error:
        raise from_validation(error.errors()) from error
    except DATABASE_ERRORS as error:
        raise answer_for_database(request, error) from error
    except Exception as error:  # the library would tell clients of 2025-11-25 what the exception says
        logger.exception("request_failed")
        raise internal_error() from error


def to_result(error: ServiceError) -> CallToolResult:
    """Return the result of a tool that failed, for the client's model to read."""
    details = "".join(f"\n- {detail.field}: {detail.message}" for detail in error.details)
    said = f"{error.message}{details}\n(code {error.code}, request {request_id()})"
    return CallToolResult(content=[TextContent(text=redact_credentials(said))], is_error=True)


def to_protocol_error(error: ServiceError) -> MCPError:
    """Return the error of what is no tool."""
    code = INTERNAL_ERROR if error.status >= DEFECT else INVALID_PARAMS
    return MCPError(code, redact_credentials(error.message), {"code": error.code, "requestId": request_id()})
