"""catalog/listDocuments with orders and filters, and catalog/listFolders, within the caller's rights."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection

from service.auth.callers import authenticate
from service.domains.documents.catalog import queries
from service.platform.database import SERVICE_ROLE
from tests.harness.cases import cases
from tests.harness.documents import add_users, create_collection, list_documents, ok, refused, uploaded
from tests.harness.jobs import until
from tests.harness.services import RunningService
from tests.service.directory import a_group, collection, document, grant, group, on_rows, organization_id, user, walk

ANN, BEN = "ann@example.test", "ben@example.test"
# By name, with sizes of which two are the same.
SIZES = {"Reports/2026/b.txt": 3, "reports/2025/A.txt": 9, "reports.txt": 3, "minutes/c.txt": 5, "Reports/d.txt": 1}
HERS = {"Reports/2026/b.txt", "reports/2025/A.txt", "reports.txt", "minutes/c.txt"}


@pytest.fixture(scope="module")
def shelf(module_service: RunningService) -> RunningService:
    add_users(module_service, ANN, BEN)
    crew = a_group(module_service, "Crew", user(BEN))
    for path, size in SIZES.items():
        made = uploaded(module_service, path, "x" * size, documentName=path.rpartition("/")[2])["documentId"]
        grant(module_service, document(made), *([user(ANN)] if path in HERS else []))
        if path == "minutes/c.txt":
            grant(module_service, document(made), user(ANN), group(crew))
    return module_service


@pytest.fixture(params=[5000, 0], ids=["sorted", "walked"])
def _few(request, monkeypatch) -> None:
    """Let the service sort a reader's documents, or walk an index past other documents."""
    monkeypatch.setattr(queries, "_FEW", request.param)


def listed(service: RunningService, person: str | None = None, **body: Any) -> list[str]:
    acting = {"userEmail": person} if person else {}
    return [one["documentExternalId"] for one in walk(service, "catalog/listDocuments", body | acting, page_size=2)]


@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize("narrowed", [{}, {"documentName": "t"}], ids=["all", "named"])
def test_each_order_shows_what_may_be_read_once_both_ways(shelf: RunningService, narrowed: dict[str, str]) -> None:
    by_name = ["reports/2025/A.txt", "Reports/2026/b.txt", "minutes/c.txt", "Reports/d.txt", "reports.txt"]
    orders = {"CREATED": [*SIZES][::-1], "UPDATED": [*SIZES][::-1], "NAME": by_name}
    for order, expected in orders.items():
        turned = {"order": order, "descending": order == "NAME", **narrowed}
        assert listed(shelf, order=order, **narrowed) == expected
        assert listed(shelf, **turned) == expected[::-1]
        assert listed(shelf, ANN, order=order, **narrowed) == [path for path in expected if path in HERS]
    sizes = [SIZES[path] for path in listed(shelf, ANN, order="SIZE", **narrowed)]
    assert sizes == sorted((SIZES[path] for path in HERS), reverse=True)
    assert sorted(listed(shelf, order="SIZE", descending=False, **narrowed)) == sorted(SIZES)
    assert listed(shelf, BEN, order="NAME", **narrowed) == ["minutes/c.txt"]


def test_a_page_token_is_of_one_order(shelf: RunningService) -> None:
    token = ok(shelf.call("catalog/listDocuments", {"pageSize": 1, "order": "NAME"}))["nextPageToken"]
    for other in ({"order": "SIZE"}, {"order": "NAME", "descending": True}, {}):
        asked = {"pageSize": 1, "pageToken": token, **other}
        refused(shelf.call("catalog/listDocuments", asked), 400, "invalid_page_token")


@pytest.mark.usefixtures("_few")
def test_a_folder_is_whole_parts_of_external_ids_in_any_case(shelf: RunningService) -> None:
    inside = [path for path in SIZES if path.lower().startswith("reports/")][::-1]
    for folder in ("reports", "REPORTS/", "/Reports"):
        assert listed(shelf, folder=folder) == inside
    assert listed(shelf, ANN, folder="Reports") == [path for path in inside if path in HERS]
    assert listed(shelf, folder="reports/2026") == ["Reports/2026/b.txt"]
    assert listed(shelf, folder="report") == listed(shelf, folder="2026") == listed(shelf, folder="report%") == []
    assert listed(shelf, BEN, folder="reports") == listed(shelf, folder="r" * 300) == []


def test_slashes_before_and_beside_others_make_no_folders(service: RunningService) -> None:
    for path in ("/data/a.txt", "file:///srv/c.txt", "https://host.example/b.txt", "/data/a.txt"):
        uploaded(service, path, f"Words {path}.", documentName=f"{path} {len(list_documents(service))}")
    assert (listed(service, order="UPDATED")[0], listed(service)[-1]) == ("/data/a.txt", "/data/a.txt")
    for above, name, path in (
        ("https:", "host.example", "https://host.example/b.txt"),
        ("file:", "srv", "file:///srv/c.txt"),
    ):
        [below] = walk(service, "catalog/listFolders", {"folder": above})
        assert (below["folder"], below["name"], below["documentCount"]) == (f"{above}/{name}", name, 1)
        assert listed(service, folder=below["folder"]) == listed(service, folder=path.rpartition("/")[0]) == [path]
    assert [each["folder"] for each in walk(service, "catalog/listFolders")] == ["data", "file:", "https:"]
    assert listed(service, folder="/data") == ["/data/a.txt"]
    assert len(listed(service, folder="/")) == 3
    for path in ("\u00dcber/d.txt", "\u00dcber/e.txt"):
        uploaded(service, path, f"Words {path}.")
    decompose, of_e = (
        "UPDATE documents SET external_id = normalize(external_id, NFD)",
        "AND external_id LIKE '%%/e.txt'",
    )
    on_rows(service, decompose, more=of_e)
    assert [each["documentCount"] for each in walk(service, "catalog/listFolders")] == [1, 1, 1, 2]


def test_folders_count_what_may_be_read(shelf: RunningService) -> None:
    def folders(person: str | None = None, **body: Any) -> dict[str, int]:
        acting = {"userEmail": person} if person else {}
        found = walk(shelf, "catalog/listFolders", body | acting, page_size=1)
        return {each["folder"]: each["documentCount"] for each in found}

    assert folders() == {"minutes": 1, "Reports": 3}
    assert folders(ANN) == {"minutes": 1, "Reports": 2}
    assert folders(BEN) == {"minutes": 1}
    assert folders(folder="Reports") == {"Reports/2025": 1, "Reports/2026": 1}
    assert folders(ANN, folder="reports", documentName="b") == {"reports/2026": 1}
    assert folders(BEN, folder="Reports") == folders(folder="minutes") == {}


@pytest.mark.usefixtures("_few")
def test_an_admin_lists_what_a_person_may_read(shelf: RunningService) -> None:
    crew = next(each["id"] for each in walk(shelf, "admin/groups/list", {}, page_size=9))
    for reader in (user(BEN), {"type": "group", "id": crew}):
        assert listed(shelf, readableBy=reader) == ["minutes/c.txt"]
    assert listed(shelf, readableBy=user(ANN), folder="Reports") == ["reports/2025/A.txt", "Reports/2026/b.txt"]
    asked = {"readableBy": user(BEN), "userEmail": BEN}
    refused(shelf.call("catalog/listDocuments", asked), 403, "admin_only")
    refused(shelf.call("catalog/listFolders", asked), 403, "admin_only")
    unknown = {"readableBy": user("nobody@example.test")}
    refused(shelf.call("catalog/listDocuments", unknown), 400, "unknown_principal")


@pytest.mark.usefixtures("_few")
def test_a_collection_narrows_for_those_with_a_role_in_it(shelf: RunningService) -> None:
    held = create_collection(shelf, f"Held {queries._FEW}")
    for path in ("minutes/c.txt", "Reports/d.txt"):
        uploaded(shelf, path, "x" * SIZES[path], collectionId=held)
    inside = ["Reports/d.txt", "minutes/c.txt"]
    assert list_documents(shelf, documentCollectionId=held) == inside
    assert listed(shelf, ANN, documentCollectionId=held) == []
    grant(shelf, collection(held), user(ANN))
    assert listed(shelf, ANN, documentCollectionId=held) == ["minutes/c.txt"]
    assert listed(shelf, BEN, documentCollectionId=held) == []


def test_documents_of_some_collections_are_sorted(shelf: RunningService, monkeypatch) -> None:
    monkeypatch.setattr(queries, "_FEW", 0)
    bearer, keys, offset = f"Bearer {shelf.api_key}", shelf.runtime.keys, shelf.runtime.clock.offset

    async def ask(connection: AsyncConnection, **narrowed: Any) -> bool:
        caller = await authenticate(connection, bearer, keys=keys, version="v0", clock_offset=offset)
        reader = replace(caller, **narrowed)
        return await queries._may_read_many(connection, caller.organization_id, [reader])

    assert shelf.in_transaction(None, ask)
    assert not shelf.in_transaction(None, partial(ask, collection_ids=frozenset()))


@pytest.mark.parametrize(("asked", "index"), cases("an_index_serves_each_order"))
def test_an_index_serves_each_order(shelf: RunningService, monkeypatch, asked: dict[str, Any], index: str) -> None:
    """A plan without sorting and whole tables reads the index of the key. Later pages begin at their key, except by
    name: lower() is not leakproof, so under row-level security it is no condition of an index."""
    statements: list[Any] = []
    find = queries.sql.find_rows

    async def keep(connection, statement, kind):
        statements.append(statement)
        return await find(connection, statement, kind)

    monkeypatch.setattr(queries.sql, "find_rows", keep)
    listed(shelf, **asked)
    compiled = statements[-1].compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True})
    with shelf.owner_connection() as connection:
        for other in ("seqscan", "bitmapscan", "sort"):
            connection.execute(f"SET enable_{other} = off")
        connection.execute("SELECT set_config('carrel.organization_id', %s, false)", [str(organization_id(shelf))])
        connection.execute(f"SET ROLE {SERVICE_ROLE}")
        # An index waits for the transactions that were open when it was built.
        until(lambda: any(index in line for (line,) in connection.execute(f"EXPLAIN {compiled}")))
        plan = [line for (line,) in connection.execute(f"EXPLAIN {compiled}")]
    begins = [line for line in plan if "Index Cond" in line and "ROW(" in line]
    assert len(begins) == (index != "ix_documents_name")
