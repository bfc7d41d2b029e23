"""Hosts whose documents describe clients of /mcp: a part of the page about applications."""

from collections.abc import Collection
from functools import partial

import streamlit as st

from app import api
from app.credentials.accounts import organization
from app.credentials.applications import addresses_in, clear_caches
from app.ui.dialogs import confirm
from app.ui.errors import show_errors
from app.ui.notices import show_text


def show_hosts() -> None:
    """Show which hosts are allowed, with a field that changes them."""
    st.header("Hosts of agents", anchor=False)
    show_text(
        "Well-known agents describe themselves at an address of their maker's. Allowing its host lets your people "
        "connect the agents described there to /mcp, as themselves and with what they allow."
    )
    allowed = show_errors(organization).client_document_hosts
    text = st.text_area("Allowed hosts, one a line", "\n".join(allowed), key="hosts", placeholder="claude.ai")
    hosts = sorted({line.lower() for line in addresses_in(text)})
    if hosts != sorted(allowed) and st.button("Save", key="hosts.save", type="primary"):
        confirm(
            "Change the allowed hosts?",
            "People can connect the agents of the hosts in the list. Agents of hosts that are no longer in it stop at "
            "once, and what people allowed them is forgotten.",
            doing="Change them",
            action=partial(_change, set(hosts) - set(allowed), set(allowed) - set(hosts)),
        )


def _change(added: Collection[str], removed: Collection[str]) -> None:
    """Change what the person has changed, and leave what another admin has changed by now."""
    api.client().admin.organization.update(added_client_document_hosts=added, removed_client_document_hosts=removed)
    organization.clear()
    clear_caches()
