"""The service's data for pages, read as the signed-in person and cached for a few seconds per session."""

from collections.abc import Callable

import streamlit as st

from app.auth.current import bind_session, key_client, person_client, require_session
from carrel import Carrel
from carrel.wire.collections import DocumentCollection
from carrel.wire.common import Role
from carrel.wire.me import MeResponse
from carrel.wire.scopes import ApiScope


def client() -> Carrel:
    """Return the client for all but Chat, of an admin with the workbench's key if any. Raises SignInRequiredError."""
    require_session()  # the key stays valid after the session
    shared = key_client()
    return shared if shared is not None and _is_admin_still() else person_client()


def client_for_later() -> Callable[[], Carrel]:
    """Return a function that returns `client()` outside the page's run, for downloads, until the session ends."""
    held, made = bind_session(), client()

    def client_of_session() -> Carrel:
        held()
        return made

    return client_of_session


@st.cache_data(ttl=60, show_spinner=False, scope="session")
def me() -> MeResponse:
    """Return the signed-in person; an admin only if the workbench's key, or else the person's token, can administer."""
    found = person_client().me()
    if (client := key_client()) is not None:
        users = client.admin.users.list(query=found.email)
        is_admin = any(user.email == found.email and user.active and user.is_admin for user in users)
    else:
        is_admin = found.is_admin and ApiScope.ADMIN in found.scopes
    return found.model_copy(update={"is_admin": is_admin})


def me_now() -> MeResponse:
    """Return the signed-in person, read again, for actions checked only by the workbench."""
    me.clear()
    return me()


@st.cache_data(ttl=5, show_spinner=False, scope="session")
def _is_admin_still() -> bool:
    """Return whether the person is still an admin. With the workbench's own key, the service doesn't check."""
    return me_now().is_admin


@st.cache_data(ttl=10, show_spinner=False, scope="session")
def collections() -> list[DocumentCollection]:
    listed = client().document_collections.list_document_collections()
    return sorted(listed, key=lambda found: found.collection_name.lower())


@st.cache_data(ttl=30, show_spinner=False, scope="session")
def agent_names() -> dict[str, str]:
    """Return the names of the organization's agents by id, at most 1,000."""
    return {str(item.agent_id): item.name for item in next(client().admin.agents.list(page_size=1000).pages()).agents}


def collection_names() -> dict[str, str]:
    return {str(found.document_collection_id): found.collection_name for found in collections()}


def may_edit(collection: DocumentCollection) -> bool:
    return collection.role in {Role.OWNER, Role.EDITOR}


def editable_collections() -> list[DocumentCollection]:
    return [found for found in collections() if may_edit(found)]
