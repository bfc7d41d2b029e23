"""The requirements of API operations for callers, by path: for both versions, and for a single version."""

from carrel.wire.api import OPERATIONS

REQUIREMENTS, V0_REQUIREMENTS, V1_REQUIREMENTS = (
    {one.path: one.requires for one in OPERATIONS.values() if one.version == version} for version in (None, "v0", "v1")
)
