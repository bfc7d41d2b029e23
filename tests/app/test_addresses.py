"""Addresses that name nothing: what was deleted, what is somebody else's, and no id at all."""

import pytest

from tests.app.pages import NOTHING


@pytest.mark.parametrize(
    ("view", "parameter", "said", "back"),
    [
        ("agents", "agent", "This agent isn't here.", "All agents"),
        ("api_keys", "key", "There is no such API key.", "All API keys"),
        ("audit_log", "entry", "There is no such entry.", "All entries"),
        ("collections", "collection", "This collection isn't here.", "All collections"),
        ("documents", "document", "This document isn't here.", "All documents"),
        ("groups", "group", "There is no such group", "All groups"),
        ("oauth_clients", "client", "There is no such application", "All applications"),
        ("people", "person", "There is no such person", "All people"),
        ("provisioning", "token", "There is no such token.", "All tokens"),
        ("quality", "search", "This search isn't in the log.", "All of these searches"),
        ("quality?part=sets", "set", "This set isn't here.", "All evaluation sets"),
        ("service_accounts", "account", "There is no such service account", "All service accounts"),
        ("syncs", "sync", "This sync isn't here.", "All syncs"),
    ],
)
def test_an_address_of_nothing_is_said_with_the_way_back(house, view, parameter, said, back):
    view, _, part = view.partition("?part=")
    for nothing in NOTHING:
        page = house.open(view, q="sheep", part=part, **{parameter: nothing})
        page.assert_shown_as_text(said)
        assert "sheep" not in page.shown
        assert parameter not in page.press(back).query_params
