"""What the operations of the API require of their callers, by path: those on both versions, and those on one alone."""

from carrel.wire.api import OPERATIONS

REQUIREMENTS, V0_REQUIREMENTS, V1_REQUIREMENTS = (
    {one.path: one.requires for one in OPERATIONS.values() if one.version == version} for version in (None, "v0", "v1")
)
