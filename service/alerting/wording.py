"""Sentences about alerts for people: in messages, mail and lists. `reasons.toml` has a sentence for each code."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from carrel.wire.alerts import ALERT_TITLES, AlertKind

_REASONS: Mapping[str, str] = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text(encoding="utf-8"))
_STATES: Mapping[str, str] = {"alert.began": "", "alert.continues": "Still: ", "alert.ended": "Works again: "}
# Chat programs read these characters as links and mentions.
_NO_MARKUP = str.maketrans("<>", "()")


def reason_of(code: str, quarantined_count: int | None) -> str:
    if quarantined_count is not None:
        items = "1 item was" if quarantined_count == 1 else f"{quarantined_count:,} items were"
        return f"{items} not loaded. The workbench shows why."
    return _REASONS.get(code, f"Reason: {code.replace('_', ' ')}.")


def subject_of(message: Mapping[str, Any]) -> str:
    data = message["data"]
    organization = f"[{data['organization']['name']}]"
    if message["type"] == "alert.test":
        return f"{organization} A test of Carrel's alerts"
    if message["type"] == "alert.left_out":
        return f"{organization} {data['leftOutCount']:,} more messages of this hour were not sent"
    return f"{organization} {_STATES[message['type']]}{ALERT_TITLES[AlertKind(data['kind'])]}: {data['name']}"


def text_of(message: Mapping[str, Any]) -> str:
    data = message["data"]
    why = (
        reason_of(data["code"], data.get("quarantinedCount"))
        if message["type"] in {"alert.began", "alert.continues"}
        else ""
    )
    subject = one_line(subject_of(message), most=1000)
    return " ".join(filter(None, (f"{subject}.", why, data.get("link")))).translate(_NO_MARKUP)


def one_line(text: str, *, most: int) -> str:
    """Return a text without line breaks and control characters, cut to a length."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:most]
