"""Mail: plain text about an alert, to one person."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from service.alerting.sending.webhooks import Attempt
from service.alerting.wording import one_line, subject_of, text_of
from service.platform import mail
from service.platform.settings import Settings

_LABELS: Mapping[str, str] = {
    "name": "What",
    "flow": "Run",
    "documentCount": "Documents",
    "quarantinedCount": "Not loaded",
    "beganAt": "Since",
    "endedAt": "Until",
    "link": "Look at it",
}


async def send_mail(settings: Settings, message: Mapping[str, Any], *, to: str, delivery_id: UUID) -> Attempt:
    subject = one_line(subject_of(message), most=200)
    error = await mail.send(settings, to=to, subject=subject, text=_text(message), mail_id=delivery_id)
    return Attempt(error=error, is_last=error == mail.UNFIT)


def _text(message: Mapping[str, Any]) -> str:
    data = message["data"]
    lines = [f"{label}: {one_line(str(data[name]), most=4096)}" for name, label in _LABELS.items() if name in data]
    why = f"An admin of {one_line(data['organization']['name'], most=200)} has chosen you to be told."
    return "\n".join([text_of(message), "", *lines, "", why, ""])
