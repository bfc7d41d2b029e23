"""kill -9 of the service while a message is on its way: the message comes again after the next start, as it was."""

from uuid import uuid4

import pytest

from tests.harness.jobs import until
from tests.harness.receivers import receiving
from tests.service.directory import done


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_message_survives_the_death_of_its_sender(service_process) -> None:
    """The first receiver's answer never came, so it is posted anew: the same id and body, signed for another time."""
    service = service_process(CARREL_WEBHOOK_ALLOWED_HOSTS="127.0.0.1", CARREL_WORKERS="1")
    with receiving() as receiver:
        receiver.open.clear()
        done(service.call("admin/alertRules/create", {"kinds": ["RUN_FAILED"], "webhookUrl": receiver.url}))
        run = {"runId": str(uuid4()), "subject": "x", "flow": "bulk-upload", "source": "/srv/x", "outcome": "FAILED"}
        done(service.call("alerts/reportRun", run))
        until(lambda: len(receiver.posts) == 1)
        service.kill()
        receiver.open.set()
        service.start()
        until(lambda: len(receiver.posts) == 2)
        (first, body), (second, again) = receiver.posts
        assert body == again
        assert first["webhook-id"] == second["webhook-id"]
        until(lambda: done(service.call("admin/alertRules/listDeliveries"))["deliveries"][0]["status"] == "DELIVERED")
