"""Rights on a sync, allowed targets, and secrecy of the address."""

import json
from uuid import UUID

import pytest

from service.platform.secrets import Keys, SealError, unseal
from tests.harness.cases import cases
from tests.harness.mongo.processes import MongoServer, server_over_mongomock
from tests.service.directory import another_organization, code, collection, done, entries, grant, on_rows, user, walk
from tests.service.docstore import FOLDER, LOOPBACK, Syncing, a_thing, counts
from tests.service.examples import DOCSTORE_CONFIG, DOCSTORE_URI
from tests.service.test_secret_key import NEW, rotate


def an_editor(syncing: Syncing) -> str:
    key = syncing.service.new_user("editor@example.test")
    grant(syncing.service, collection(syncing.collection_id), user("editor@example.test"), role="EDITOR")
    return key


def test_editors_make_syncs_and_only_their_own_may_be_changed(quiet: Syncing) -> None:
    roles = {"editor@example.test": "EDITOR", "other@example.test": "EDITOR", "viewer@example.test": "VIEWER"}
    editor, other, viewer = map(quiet.service.new_user, roles)
    grants = [{"principal": user(email), "role": role} for email, role in roles.items()]
    done(quiet.service.call("admin/grants/set", {"resource": collection(quiet.collection_id), "grants": grants}))
    quiet.api_key = viewer
    assert code(quiet.create(uri=DOCSTORE_URI)) == (403, "collection_editor_required")
    quiet.api_key = editor
    done(quiet.create(uri=DOCSTORE_URI))
    for key, expected in ((viewer, (404, "docstore_sync_not_found")), (other, (403, "docstore_sync_owner_required"))):
        quiet.api_key = key
        assert code(quiet.update(uri=DOCSTORE_URI)) == expected
        assert code(quiet.call("deleteDocstoreSync", quiet.named)) == expected
    assert done(quiet.call("getDocstoreSync", quiet.named))["docstoreCredentialId"] == quiet.sync_id
    assert done(quiet.call("launchDocstoreSync", quiet.named))["syncLaunched"] is False, "its first run waits"
    assert [one["docstoreCredentialId"] for one in syncs(quiet)] == [quiet.sync_id]
    quiet.api_key = viewer
    assert code(quiet.call("getDocstoreSync", quiet.named)) == (404, "docstore_sync_not_found")
    assert code(quiet.call("listDocstoreFailures", quiet.named)) == (404, "docstore_sync_not_found")
    assert syncs(quiet) == []
    quiet.api_key = editor
    assert done(quiet.update(uri=DOCSTORE_URI))["syncLaunched"] is True
    quiet.api_key = None
    done(quiet.update(uri=DOCSTORE_URI))
    done(quiet.call("deleteDocstoreSync", quiet.named))
    assert code(quiet.call("getDocstoreSync", quiet.named)) == (404, "docstore_sync_not_found")


def test_a_run_that_is_wanted_says_since_when(quiet: Syncing, syncing: Syncing) -> None:
    done(quiet.create(uri=DOCSTORE_URI))
    made = done(quiet.call("getDocstoreSync", quiet.named))
    assert made["wantedAt"] == made["updatedAt"]
    done(quiet.update(uri=DOCSTORE_URI))
    changed = done(quiet.call("getDocstoreSync", quiet.named))
    assert changed["wantedAt"] == changed["updatedAt"] > made["wantedAt"]
    on_rows(quiet.service, "UPDATE docstore_syncs SET status = 'FAILED'")
    done(quiet.call("launchDocstoreSync", quiet.named))
    launched = done(quiet.call("getDocstoreSync", quiet.named))
    assert launched["wantedAt"] > launched["updatedAt"]
    assert "wantedAt" not in syncing.first_run()


def syncs(syncing: Syncing) -> list[dict]:
    return walk(syncing.service, f"{FOLDER}/listDocstoreSyncs", {}, page_size=1, api_key=syncing.api_key)


def test_the_syncs_of_a_collection_are_listed_page_by_page(quiet: Syncing) -> None:
    made = [done(quiet.create(uri=DOCSTORE_URI))["docstoreCredentialId"] for _ in range(3)]
    elsewhere = Syncing(quiet.service, quiet.mongo.with_collection())
    made.append(done(elsewhere.create(uri=DOCSTORE_URI))["docstoreCredentialId"])
    assert [one["docstoreCredentialId"] for one in syncs(quiet)] == made
    listed = done(quiet.call("listDocstoreSyncs", {"documentCollectionId": elsewhere.collection_id}))
    assert [one["docstoreCredentialId"] for one in listed["docstoreSyncs"]] == made[3:]


def test_what_a_sync_brings_belongs_to_who_made_it(syncing: Syncing) -> None:
    syncing.filled(3)
    owner_key, syncing.api_key = syncing.api_key, an_editor(syncing)
    assert counts(syncing.first_run(), "created") == (3,)
    assert len(syncing.documents()) == 3
    syncing.api_key = owner_key
    assert syncing.documents() == {}
    [entry] = entries(syncing.service, action="docstore.sync")
    told = {"read": 3, "created": 3, "updated": 0, "deleted": 0}
    assert entry["details"] == {"status": "COMPLETED", "collectionId": syncing.collection_id, **told}
    assert entry["actor"]["email"] == "editor@example.test"


@pytest.mark.parametrize("lost", ["role", "active"])
def test_a_run_stops_when_its_owner_may_no_longer(syncing: Syncing, lost: str) -> None:
    syncing.filled(10)
    syncing.api_key = an_editor(syncing)
    syncing.first_run()
    syncing.mongo.collection.delete_one({"_id": "thing-0001"})
    syncing.mongo.collection.insert_one(a_thing(50))
    if lost == "role":
        grant(syncing.service, collection(syncing.collection_id))
    else:
        body = {"users": [{"email": "editor@example.test", "active": False}]}
        done(syncing.service.call("admin/users/upsert", body))
    syncing.api_key = None
    sync = syncing.run()
    expected = "collection_not_found" if lost == "role" else "sync_owner_inactive"
    assert (sync["status"], sync["lastError"]["code"]) == ("FAILED", expected)
    assert counts(sync, "created", "deleted") == (0, 0)
    assert sync["documentCount"] == 10


BAD_CONFIGS = cases("bad_configurations_of_syncs")


@pytest.mark.parametrize("field", BAD_CONFIGS)
def test_a_config_that_cannot_work_is_refused(quiet: Syncing, field: str) -> None:
    answer = quiet.create(uri=DOCSTORE_URI, **BAD_CONFIGS[field])
    assert answer.status_code == 400, answer.text
    assert any(one["field"].startswith(field) for one in answer.json()["error"]["details"]), answer.text
    assert syncs(quiet) == []


def test_hosts_that_are_not_public_are_refused(service, mongo: MongoServer) -> None:
    answer = Syncing(service, mongo).create()
    assert code(answer) == (400, "docstore_host_not_allowed")
    assert "127.0.0.1" not in answer.text


@pytest.mark.usefixtures("impatient")
def test_a_name_is_judged_by_the_address_it_has(make_service, mongo: MongoServer) -> None:
    """At the time of connecting."""
    syncing = Syncing(make_service(docstore_allowed_hosts=("10.0.0.0/8",), docstore_connect_seconds=1), mongo)
    port = mongo.uri.rpartition(":")[2]
    sync = syncing.first_run(uri=f"mongodb://localhost.localdomain:{port}")
    assert sync["lastError"]["code"] in {"source_host_not_allowed", "source_host_unknown"}
    allowed = Syncing(make_service(docstore_allowed_hosts=("localhost",)), mongo)
    assert allowed.first_run(uri=f"mongodb://localhost:{port}")["status"] == "COMPLETED"


def test_hosts_that_a_server_names_are_judged_too(make_service) -> None:
    with server_over_mongomock("10.1.2.3:27017") as betrayer:
        syncing = Syncing(make_service(docstore_allowed_hosts=LOOPBACK, docstore_connect_seconds=1), betrayer)
        betrayer.collection.insert_one(a_thing(1))
        sync = syncing.first_run(uri=f"{betrayer.uri}?replicaSet=rs0&readPreference=secondary")
    assert sync["lastError"]["code"] == "source_host_not_allowed"


@pytest.mark.usefixtures("impatient")
def test_an_address_is_nowhere_to_be_read(make_service, mongo, service_logs) -> None:
    service = make_service(docstore_connect_seconds=0.2)
    syncing = Syncing(service, mongo)
    answers = [syncing.create(uri=DOCSTORE_URI).text, json.dumps(syncing.ended())]
    answers.append(syncing.create(uri=f"{DOCSTORE_URI}?tlsCAFile=/lighthouse").text)
    answers.append(json.dumps(syncs(syncing)))
    answers.append(service.call("admin/auditLog/query", {"pageSize": 1000}).text)
    rows = service.execute("SELECT to_jsonb(s) FROM docstore_syncs s")
    [[sealed, organization]] = service.execute("SELECT sealed_uri, organization_id FROM docstore_syncs")
    jobs = service.execute("SELECT to_jsonb(j) FROM procrastinate_jobs j")
    logged = service_logs.getvalue()
    assert "createDocstoreSync" in logged
    told = "\n".join([*answers, str(rows), str(jobs), sealed.decode("latin-1"), logged])
    assert not [secret for secret in ("lighthouse", "reader", "mongo.example.test") if secret in told]
    keys, sync_id = service.runtime.keys, UUID(rows[0][0]["sync_id"])
    assert unseal(keys.docstore_key(organization), row_id=sync_id, sealed=sealed).get_secret_value() == DOCSTORE_URI
    for wrong in (
        {"keys": Keys(NEW)},
        {"sync_id": organization},
        {"organization_id": sync_id},
        {"sealed": sealed[:-1] + bytes([sealed[-1] ^ 1])},
    ):
        given = {"keys": keys, "organization_id": organization, "sync_id": sync_id, "sealed": sealed, **wrong}
        key = given["keys"].docstore_key(given["organization_id"])
        with pytest.raises(SealError):
            unseal(key, row_id=given["sync_id"], sealed=given["sealed"])


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_change_of_the_secret_key_keeps_syncs(make_service, service_harness, databases, mongo, is_lost) -> None:
    name = databases.clone()
    first, stack = service_harness.start(database=name, docstore_allowed_hosts=LOOPBACK)
    syncing = Syncing(first, mongo)
    other_key = another_organization(first)
    other = Syncing(first, mongo.with_collection(), api_key=other_key)
    mongo.collection.insert_one(a_thing(1))
    syncing.first_run()
    other.first_run()
    first.run(stack.aclose())
    first.http.close()
    settings = first.settings.model_copy(update={"new_secret_key": NEW})
    assert rotate(settings, *(["--lost"] if is_lost else []))[0] == 0
    syncing.service = other.service = make_service(database=name, secret_key=NEW, docstore_allowed_hosts=LOOPBACK)
    mongo.collection.insert_one(a_thing(2))
    if is_lost:
        assert syncing.run()["lastError"]["code"] == "docstore_uri_lost"
        assert code(syncing.update()) == (400, "docstore_uri_lost")
        assert syncing.updated(uri=mongo.uri)["status"] == "COMPLETED"
    else:
        assert syncing.run()["status"] == other.run()["status"] == "COMPLETED"
    assert syncing.names() == {"Thing 1", "Thing 2"}


def test_an_update_takes_the_place_of_a_run(quiet: Syncing) -> None:
    done(quiet.create(uri=DOCSTORE_URI))
    body = {**quiet.named, "docstoreURI": DOCSTORE_URI, "config": {**DOCSTORE_CONFIG, "syncName": "renamed"}}
    headers = {"Idempotency-Key": "the-same"}
    first, again = (quiet.call("updateDocstoreSync", body, headers=headers) for _ in range(2))
    assert first.status_code == again.status_code == 200, again.text
    assert again.headers["Idempotent-Replayed"] == "true"
    assert first.json() == again.json() == {**quiet.named, "resourceId": quiet.sync_id, "syncLaunched": True}
    sync = done(quiet.call("getDocstoreSync", quiet.named))
    assert (sync["status"], sync["config"]["syncName"]) == ("PENDING", "renamed")
    done(quiet.call("updateDocstoreSync", body))
    stale = quiet.call("updateDocstoreSync", {**body, "version": sync["version"]})
    assert code(stale) == (409, "changed_meanwhile"), "the address was replaced"


def test_deleting_the_collection_deletes_its_syncs(quiet: Syncing) -> None:
    done(quiet.create(uri=DOCSTORE_URI))
    body = {"documentCollectionId": quiet.collection_id}
    done(quiet.service.call("documentCollections/deleteDocumentCollection", body))
    assert on_rows(quiet.service, "SELECT sync_id FROM docstore_syncs") == []
