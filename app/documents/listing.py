"""The list of documents: filters and order as service arguments and as Python, and the folders above the list."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import streamlit as st

import carrel
from app import api
from app.document_collections.contents import INSIDE
from app.documents.facts import KINDS, STATES
from app.formatting import browser_zone, days_back, one_line
from app.labels import PERSON, SERVICE_ACCOUNT
from app.lookup import Principal
from app.ui import notices
from app.ui.dialogs import NotYetError
from app.ui.errors import ENDED, problem_of, show_errors
from app.ui.filters import choice_filter, days_filter, filter_line, text_filter
from app.ui.pickers import pick_principal
from app.ui.progress import offer_export
from app.ui.tables import forget, pages_of, show_each
from carrel.wire.catalog import Document, DocumentFolder
from carrel.wire.common import NamedDocument
from flows.operations.formatting import count_text, list_text

LIST, CHOSEN, FOLDERS = "documents", "documents.chosen", "documents.folders"
MINE, SHARED, ALL = "mine", "shared", "all"
ANY_STATE = {"": "Any", **{state.value.lower(): words for state, words in STATES.items()}}
FILES = {"": "Only when filtering", ALL: "Always"}
DATES = "dates"
CHANGED = {"": "Any time", "7": "Last 7 days", "30": "Last 30 days", "365": "Last 365 days", DATES: "Choose dates"}
ORDERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "": ("Newest first", {}),
    "created-turned": ("Oldest first", {"order": "CREATED", "descending": False}),
    "updated": ("Last changed first", {"order": "UPDATED"}),
    "updated-turned": ("Longest unchanged first", {"order": "UPDATED", "descending": False}),
    "name": ("Name, A to Z", {"order": "NAME"}),
    "name-turned": ("Name, Z to A", {"order": "NAME", "descending": True}),
    "size": ("Largest first", {"order": "SIZE"}),
    "size-turned": ("Smallest first", {"order": "SIZE", "descending": False}),
}
MOST_FOLDERS = 50
OWNERS = (PERSON, SERVICE_ACCOUNT)
Named = TypeVar("Named", bound=NamedDocument)


class Wanted(NamedTuple):
    name: str
    kind: str
    state: str
    owner: str
    shared: bool
    files: str
    collection: str
    reader: Principal | None
    since: datetime | None
    until: datetime | None
    folder: str
    order: str

    @property
    def narrows(self) -> bool:
        """Whether any filter except the owner and the files in archives is set."""
        return any(self._replace(owner="", files="", order=""))

    def filters(self) -> dict[str, Any]:
        looked_for = self.files or self.name or self.kind or self.state
        every: dict[str, Any] = {
            "document_name": self.name,
            "media_types": self.kind and list(KINDS[self.kind][1]),
            "indexing": self.state.upper(),
            "owner_email": self.owner,
            "shared_with_me": self.shared,
            "document_collection_id": self.collection,
            "readable_by": self.reader and self.reader.reference.model_dump(mode="json"),
            "updated_from": self.since and self.since.isoformat(),
            "updated_to": self.until and self.until.isoformat(),
            "folder": self.folder,
        }
        return {name: value for name, value in every.items() if value} | ({} if looked_for else {"contained": False})

    def arguments(self) -> dict[str, Any]:
        return self.filters() | ORDERS[self.order][1]


def ask_wanted() -> Wanted:
    """Show the filters, and return their values; `folder` comes from the address."""
    me = api.me()
    kinds = {"": "Any", **{key: words for key, (words, _) in KINDS.items()}}
    whose = {MINE: "Mine", SHARED: "Shared with me", ALL: "All" if me.is_admin else "All I can read"}
    collections = {"": "Any", **show_errors(api.collection_names)}
    with filter_line(
        "of", "kind", "order", "state", "changed", "from", "to", "collection", "files", "owner", "reader", most=4
    ):
        name = text_filter("Name", "name", placeholder="Part of a name")
        choice = choice_filter("Show", "of", whose, default=ALL if me.is_admin else MINE)
        kind = choice_filter("Type", "kind", kinds)
        order = choice_filter("Order", "order", {key: words for key, (words, _) in ORDERS.items()})
        state = choice_filter("State", "state", ANY_STATE)
        changed = choice_filter("Changed", "changed", CHANGED)
        since = days_back(int(changed)) if changed not in {"", DATES} else None
        since, until = days_filter() if changed == DATES else (since, None)
        collection = choice_filter("Collection", "collection", collections)
        files = choice_filter("Files in archives and emails", "files", FILES)
        finds_owner = choice == ALL and me.is_admin
        owner = pick_principal("owner", label="Owner", kinds=OWNERS, compact=True) if finds_owner else None
        reader = pick_principal("reader", label="Who can read it", compact=True) if me.is_admin else None
    if changed == DATES:
        notices.show_note(f"Days begin and end at midnight in {browser_zone()}.")
    email = me.email if choice == MINE else owner.address if owner else ""
    folder = st.query_params.get("folder", "").strip("/")[:1000]
    return Wanted(name, kind, state, email, choice == SHARED, files, collection, reader, since, until, folder, order)


@st.fragment(parallel=True)
def show_folders(wanted: Wanted) -> None:
    """Show the way to the folder and the folders in it, read beside the list: counting all documents takes long."""
    here = wanted.folder.split("/") if wanted.folder else []
    steps = [("All folders", ""), *((name, "/".join(here[: depth + 1])) for depth, name in enumerate(here))]
    if here:
        st.html(f'<p class="carrel-facts">{" / ".join(_link(*step) for step in steps)}</p>')
    ask, about = api.client().catalog.list_folders, wanted._replace(order="")  # folders have an order of their own
    listed = pages_of(lambda at: ask(**wanted.filters(), **at), about=about, size=MOST_FOLDERS)
    with st.container(key="folders"):
        line, links = st.empty(), list[str]()
        show_each(FOLDERS, listed, each=lambda folder: links.append(_link_to(folder)), empty=lambda: None)
        if links:
            line.html(f'<p class="carrel-text">Folders: {" ".join(links)}</p>')


def _link_to(folder: DocumentFolder) -> str:
    return _link(f"{folder.name} ({folder.document_count:,})", folder.folder)


def _link(text: str, folder: str) -> str:
    kept = {name: value for name, value in st.query_params.items() if name != "folder"}
    return notices.LinkedText(text, notices.address("documents", **kept, **({"folder": folder} if folder else {}))).body


def offer_python(arguments: Mapping[str, Any]) -> None:
    lines = "".join(f"\n    {name}={value!r}," for name, value in arguments.items())
    with st.popover("Copy as Python", icon=":material/code:"):
        call = f"documents = client.catalog.list_documents({lines}\n)\n"
        call += "for document in documents:\n    print(document.document_id, document.document_name)"
        st.code(f"from carrel import Carrel\n\nclient = Carrel()\n{call}", wrap_lines=True)


EXPORTED = ("Name", "Path", "Id", "Owner")


def export_row(document: Document) -> Sequence[str]:
    return document.document_name, document.document_external_id, str(document.document_id), document.owner.name


def offer_list_export(arguments: Mapping[str, Any]) -> None:
    """Show a button for a CSV of the whole list, in its order."""
    listed = api.client().catalog.list_documents(**arguments, page_size=1000)
    rows = (map(export_row, page.documents) for page in listed.pages())
    about = tuple(map(str, arguments.items()))
    offer_export("documents.csv", EXPORTED, rows, about=about, label="Export list as CSV")


def tell_undoing(documents: Sequence[Document]) -> str:
    """Return sentences about which of the documents can be restored after deletion, and for how long."""
    inner = [one_line(document.document_name) for document in documents if document.parent_document_id is not None]
    if not inner:
        return tell_trash("it" if len(documents) == 1 else "them")
    lost = f"Files in an archive or email cannot be restored: {list_text(inner)}. They return with its next version."
    return lost if len(inner) == len(documents) else f"{lost} {tell_trash('the others')}"


def tell_trash(what: str, *, by: str = "The owner and admins") -> str:
    if not (days := api.me().trash_days):
        return "This can't be undone."
    return f"{by} can restore {what} from the trash for {count_text(days, 'day')}."


def change_each(
    key: str, chosen: Sequence[Named], change: Callable[[carrel.Carrel, Named], object], *, skips_gone: bool = True
) -> None:
    """Change each document, and make the tables fetch their rows again. Raises NotYetError with the names of documents
    that could not be changed; but a lost connection, an ended sign-in and a request to confirm end the work."""
    client, failed = api.client(), list[str]()
    for listed in (key, LIST, INSIDE, FOLDERS):
        forget(listed, unchoose=True)
    api.collections.clear()  # their numbers of documents have changed
    for item in chosen:
        try:
            change(client, item)
        except (carrel.APIConnectionError, *ENDED):
            raise  # all others would fail too
        except carrel.CarrelError as error:
            if skips_gone and isinstance(error, carrel.NotFoundError):
                continue  # an earlier attempt or another person has deleted or restored it
            problem = problem_of(error)
            if problem.confirm_at is not None:
                raise
            failed.append(f"{item.document_name}: {problem.message}")
    if failed:
        named = [*failed[:20], *([f"And {len(failed) - 20:,} more."] if failed[20:] else [])]
        msg = f"Of {count_text(len(chosen), 'document')}, {len(failed):,} could not be changed. {' '.join(named)}"
        raise NotYetError(msg)


def list_documents(documents: Sequence[Document], head: str, tell: Callable[[Document], str]) -> None:
    """List the documents of a dialog, with what `tell` says about each."""
    with st.container(height=240):
        notices.show_table([(item.document_name, tell(item)) for item in documents], heads=("Document", head))
