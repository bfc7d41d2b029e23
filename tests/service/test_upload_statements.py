"""How many messages an upload sends to the database, from its request until it can be searched."""

from tests.harness.documents import add_users, get_document, ok, refused, uploaded
from tests.harness.messages import messages_of
from tests.harness.services import RunningService


def test_an_upload_sends_few_messages(service: RunningService) -> None:
    """A new document takes seven, a changed one ten: statements that belong together go in one message."""
    uploaded(service, "first", "The first ferry leaves at noon.")
    with messages_of(service) as created:
        uploaded(service, "second", "The second ferry leaves at one.")
    with messages_of(service) as changed:
        assert uploaded(service, "second", "The second ferry leaves at two.")["status"] == "UPDATED"
    assert sum("INSERT INTO audit_entries" in message for message in created) == 1
    assert len(created) <= 7, created
    assert len(changed) <= 10, changed


def test_a_document_with_an_access_of_its_own_is_created(service: RunningService) -> None:
    """The access class that its access needs is made after the message that writes it, in the same transaction."""
    add_users(service, "ann@example.test", "ben@example.test")
    readers = {"allowedUsersEmailAddresses": ["ann@example.test"]}
    answer = uploaded(service, "hers", "The ferry leaves at noon.", **readers)
    shown = get_document(service, answer["documentId"], as_user="ann@example.test")
    assert shown["documentExternalId"] == "hers"
    refused(
        service.call("catalog/getDocument", {"documentId": answer["documentId"], "userEmail": "ben@example.test"}),
        404,
        "document_not_found",
    )


def test_a_document_that_comes_back_has_the_next_version(service: RunningService) -> None:
    """Answer, list of versions and audit log agree on the number, which goes on where the deleted one ended."""
    document_id = uploaded(service, "ferry", "The ferry leaves at noon.")["documentId"]
    uploaded(service, "ferry", "The ferry leaves at one.")
    ok(service.call("catalog/deleteDocument", {"documentId": document_id}))
    answer = uploaded(service, "ferry", "The ferry leaves at two.")
    assert (answer["status"], answer["documentVersion"]) == ("CREATED", 3)
    assert [each["documentVersion"] for each in get_document(service, document_id)["versions"]] == [3]
    with service.owner_connection() as connection:
        found = connection.execute("SELECT details FROM audit_entries WHERE action = 'document.create' ORDER BY at")
        assert [row[0]["version"] for row in found] == [1, 3]
