"""Rows of the database as typed objects."""

import pytest
from sqlalchemy import create_engine, literal, select

from carrel.wire.common import ResourceType, Role
from service.platform.sql import as_member


def test_a_text_is_read_as_a_member_of_an_enum() -> None:
    texts = select(literal("AGENT").label("kind"), literal("FAX").label("newer"), literal(None).label("none"))
    given = texts.subquery().c
    with create_engine("sqlite://").connect() as connection:
        found = connection.execute(select(*(as_member(column, ResourceType) for column in given))).one()
        assert tuple(found) == (ResourceType.AGENT, ResourceType.UNKNOWN, None)
        with pytest.raises(ValueError, match="FAX"):
            connection.execute(select(as_member(given.newer, Role))).one()
