"""The service as the workbench sees it: one SDK client a process."""

import streamlit as st

import carrel
from app.settings import settings


@st.cache_resource(show_spinner=False)
def client() -> carrel.Carrel:
    """Return the client, which is safe to use from every session's thread."""
    chosen = settings()
    return carrel.Carrel(api_key=chosen.api_key.get_secret_value(), base_url=chosen.base_url)


@st.cache_data(ttl=10, show_spinner=False)
def people() -> list[tuple[str, str]]:
    """Return the organization's active users as (email, name), by name."""
    users = [user for user in client().admin.users.list() if user.active]
    return sorted(((user.email, user.name) for user in users), key=lambda person: person[1].lower())


@st.cache_data(ttl=10, show_spinner=False)
def collections() -> list[tuple[str, str]]:
    """Return the collections the workbench may see as (id, name), by name."""
    found = client().document_collections.list_document_collections()
    pairs = [(str(item.document_collection_id), item.collection_name) for item in found]
    return sorted(pairs, key=lambda pair: pair[1].lower())


@st.cache_data(ttl=10, show_spinner=False)
def groups() -> list[tuple[str, str]]:
    """Return the organization's groups as (id, name), by name."""
    pairs = [(str(group.id), group.name) for group in client().admin.groups.list()]
    return sorted(pairs, key=lambda pair: pair[1].lower())
