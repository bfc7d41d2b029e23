"""The time that everything that expires is held to: the database's, which all replicas share."""

from datetime import datetime, timedelta
from typing import cast

from sqlalchemy.ext.asyncio import AsyncConnection as Connection


class Clock:
    """The database's time, moved by `offset`: none in a service that serves, what a test needs in a test. Credentials
    are looked up by SQL that adds `offset` to now() itself, which spares a round trip."""

    def __init__(self) -> None:
        self.offset = timedelta(0)

    async def now(self, connection: Connection) -> datetime:
        """Return when the connection's transaction began, in UTC."""
        return cast("datetime", (await connection.exec_driver_sql("SELECT now()")).scalar_one()) + self.offset
