"""What the ledger's statements have in common: rows, and inserts for either database."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    func,
)
from sqlalchemy.dialects import postgresql, sqlite

from flows.operations.ledger.tables import documents

AnyRow = Row[*tuple[Any, ...]]
Values = dict[str, Any]

DELETES = func.coalesce(documents.c.action, "") == "delete"


def insert_into(connection: Connection, table: Any) -> Any:
    """Return an INSERT that can say what to do where a row is there already."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def insert_many(connection: Connection, statement: Any, rows: Sequence[Values]) -> None:
    """Run an INSERT for many rows of the same members: given as they are, which costs a third of what it does else."""
    compiled = statement.compile(dialect=connection.dialect, column_keys=list(rows[0]))
    constants = {name: value for name, value in compiled.params.items() if name not in rows[0]}
    if compiled.positiontup is None:
        connection.exec_driver_sql(str(compiled), [constants | row for row in rows])
    else:
        in_order = itemgetter(*compiled.positiontup)
        connection.exec_driver_sql(str(compiled), [in_order(constants | row) for row in rows])
