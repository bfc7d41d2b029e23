"""`carrel sync`, against the real service and a MongoDB protocol server."""

import subprocess

import pytest

from tests.cli.conftest import COMMAND, Ended, Run, environment_for
from tests.harness.mongo.processes import MongoServer
from tests.service.directory import done
from tests.service.docstore import Syncing, a_thing

pytestmark = pytest.mark.own_service(docstore_allowed_hosts=("127.0.0.1",))

CREATE = ("sync", "create", "Things", "--into", "Harbour", "--source")
MAPPED = ("--body", "content.text", "--title", "title", "--updated", "updatedAt")


@pytest.fixture
def things(mongo: MongoServer, service) -> MongoServer:
    done(service.call("documentCollections/createDocumentCollection", {"collectionName": "Harbour"}))
    mongo.collection.insert_many([a_thing(number) for number in range(10)])
    mongo.collection.update_one({"_id": "thing-0003"}, {"$set": {"title": None}})
    return mongo


def create(run: Run, things: MongoServer, *options: str, **changes: str | None) -> Ended:
    environment = {"CARREL_DOCSTORE_URI": things.uri, **changes}
    return run(*CREATE, things.collection_name, *MAPPED, *options, **environment)


def test_a_sync_is_made_watched_and_mended(run: Run, things: MongoServer) -> None:
    assert create(run, things).code == 0
    watched = run("sync", "watch", "Things")
    assert (watched.code, "1 failed" in watched.out) == (1, True), watched
    assert "1 of 10 documents could not be loaded: sourceName: " in watched.out
    assert '! "thing-0003"  missing_value' in run("sync", "failures", "Things").out
    assert run("sync", "show", "Things", "--json").json["documentCount"] == 9
    things.collection.update_one({"_id": "thing-0003"}, {"$set": {"title": "Mended"}})
    mended = run("sync", "launch", "Things", "--watch", "--json").json
    assert (mended["exitCode"], mended["outcome"], mended["documents"], mended["failed"]) == (0, "completed", 10, 0)
    (listed,) = run("sync", "list", "--collection", "Harbour", "--json").json["docstoreSyncs"]
    assert (listed["config"]["syncName"], listed["documentCount"]) == ("Things", 10)
    shown = run("sync", "show", listed["docstoreCredentialId"])
    assert (shown.code, "COMPLETED" in shown.out) == (0, True)
    assert run("sync", "delete", "Things").code == 2
    assert run("sync", "delete", "Things", "--yes").code == 0
    assert (run("sync", "show", "Things").code, run("sync", "watch", "Things").code) == (2, 2)


def test_a_run_that_nobody_begins_is_said_once(make_service, mongo, tmp_path):
    service = make_service(docstore_allowed_hosts=("127.0.0.1",), docstore_workers=0)
    Syncing(service, mongo).create().raise_for_status()
    service.execute("UPDATE docstore_syncs SET updated_at = now() - interval '2 hours'")
    command = [COMMAND, "sync", "watch", "things"]
    watching = subprocess.Popen(command, cwd=tmp_path, env=environment_for(service), stderr=subprocess.PIPE, text=True)
    try:
        assert watching.stderr is not None
        assert "CARREL_DOCSTORE_WORKERS" in watching.stderr.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            watching.communicate(timeout=1.5)
    finally:
        watching.kill()
        _, rest = watching.communicate()
    assert rest == ""


def test_an_update_keeps_what_it_does_not_name(run: Run, things: MongoServer, tmp_path) -> None:
    (tmp_path / "uri").write_text(f"{things.uri}\n")
    assert create(run, things, "--uri-file", "uri", "--filter", '{"title": {"$ne": null}}').code == 0
    assert run("sync", "watch", "Things").code == 0
    (tmp_path / "filter.json").write_text('{"title": {"$in": ["Thing 1", "Thing 2"]}}')
    assert run("sync", "update", "Things", "--filter", "@filter.json").code == 0
    held = run("sync", "watch", "Things")
    assert (held.code, "were not removed" in held.out) == (1, True), held
    assert run("sync", "remove-held", "Things").code == 2, "the former name"
    assert run("sync", "remove-blocked", "Things", "--yes", "--json").json["documents"] == 7
    removed = run("sync", "watch", "Things", "--json").json
    assert (removed["exitCode"], removed["deleted"], removed["documents"]) == (0, 7, 2)
    config = run("sync", "show", "Things", "--json").json["config"]
    assert (config["deleteLimitPercent"], config["sourceFields"]["sourceSystemUpdated"]) == (20, "updatedAt")
    assert [one["counts"]["deleted"] for one in run("sync", "runs", "Things", "--json").json["runs"]] == [7, 0, 0]


def test_an_address_is_taken_from_anywhere_but_the_arguments(run, things, service):
    command = [COMMAND, *CREATE, things.collection_name, *MAPPED, "--uri-file", "-"]
    piped = subprocess.run(
        command, env=environment_for(service), input=things.uri, capture_output=True, text=True, timeout=60, check=False
    )
    assert piped.returncode == 0, piped.stderr
    none = create(run, things, CARREL_DOCSTORE_URI=None)
    assert (none.code, "--uri-file" in none.err) == (2, True)
    wrong = create(run, things, CARREL_DOCSTORE_URI="mongodb://reader:lighthouse@mongo.example.test")
    assert (wrong.code, "lighthouse" in wrong.out + wrong.err) == (2, False), wrong
    assert create(run, things, "--filter", "{").code == 2


def test_a_run_that_failed_ends_the_watch_as_it_did(run: Run, things: MongoServer) -> None:
    assert create(run, things).code == 0
    assert run("sync", "watch", "Things").code == 1
    things.misbehave(find_code=13, find_times=1)
    refused = run("sync", "launch", "Things", "--watch")
    assert (refused.code, "source_refused" in refused.err) == (2, True), refused
    assert run("sync", "update", "Things", "--title", "heading", CARREL_DOCSTORE_URI=things.uri).code == 0
    unmapped = run("sync", "watch", "Things")
    assert (unmapped.code, "None of the 10 documents" in unmapped.err) == (2, True), unmapped
