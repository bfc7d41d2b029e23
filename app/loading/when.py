"""The fields that say when a schedule runs, in words instead of a cron expression."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, time
from functools import cache
from zoneinfo import available_timezones

import streamlit as st

from app.loading.runs import times_in_words
from app.loading.starting import field
from app.ui.notices import show_problem, show_table, show_text
from flows.times import InvalidTimesError, Times, check_times, next_times

SHOWN = 5
EVERY = {
    "hour": "Every hour",
    "day": "Every day",
    "weekdays": "Monday to Friday",
    "week": "Every week",
    "month": "Every month",
    "cron": "Cron expression",
}
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_FORMS: Mapping[str, str] = {
    "hour": r"(?P<minute>\d+) \* \* \* \*",
    "day": r"(?P<minute>\d+) (?P<hour>\d+) \* \* \*",
    "weekdays": r"(?P<minute>\d+) (?P<hour>\d+) \* \* 1-5",
    "week": r"(?P<minute>\d+) (?P<hour>\d+) \* \* (?P<weekday>[0-6])",
    "month": r"(?P<minute>\d+) (?P<hour>\d+) (?P<day>\d+) \* \*",
}
_DEFAULT_AT = time(2, 0)


def choose_times() -> Times | None:
    """Show the fields, and the next times in words; return None while they say no times."""
    every, second, zone_column = st.columns(3)
    kind = every.selectbox("When", list(EVERY), key=field("every", "day"), format_func=lambda one: EVERY[one])
    with second:
        cron = _FIELDS[kind]()
    timezone = zone_column.selectbox("Time zone", _zones(), key=field("zone", _zone_of_browser()))
    times = Times(cron, timezone)
    try:
        check_times(times)
    except InvalidTimesError as error:
        show_problem(str(error))
        return None
    show_text(f"{times_in_words(times)}. The next {SHOWN} times:")
    show_table([(f"{number}.", at_in_words(at)) for number, at in enumerate(next_times([times], SHOWN), 1)])
    return times


def at_in_words(at: datetime) -> str:
    """Return a moment of a schedule by the clock of its time zone."""
    return f"{at:%A, %d %B %Y, %H:%M}"


def fill_times(times: Times) -> None:
    """Fill the fields with times that were chosen before."""
    for name, value in fields_of(times.cron).items():
        field(name, value)
    field("zone", times.timezone)


def fields_of(cron: str) -> dict[str, object]:
    """Return the fields that say a cron expression, which is one of them where no others can."""
    for every, form in _FORMS.items():
        if (found := re.fullmatch(form, " ".join(cron.split()))) is None:
            continue
        said = {name: int(number) for name, number in found.groupdict().items()}
        if said["minute"] > 59 or said.get("hour", 0) > 23:
            continue
        at = {"at": time(said["hour"], said["minute"])} if "hour" in said else {"minute": said["minute"]}
        days = {name: said[name] for name in ("weekday", "day") if name in said}
        return {"every": every, **at, **days}
    return {"every": "cron", "cron": cron}


def _hourly() -> str:
    minute = st.number_input("At minute", 0, 59, key=field("minute", 0))
    return f"{minute} * * * *"


def _daily() -> str:
    return f"{_at()} * * *"


def _on_weekdays() -> str:
    return f"{_at()} * * 1-5"


def _weekly() -> str:
    day = st.selectbox("On", list(range(len(DAYS))), key=field("weekday", 1), format_func=DAYS.__getitem__)
    return f"{_at()} * * {day}"


def _monthly() -> str:
    day = st.number_input("On day", 1, 31, key=field("day", 1), help="Months without this day are skipped.")
    return f"{_at()} {day} * *"


def _by_cron() -> str:
    return st.text_input(
        "Minute, hour, day of month, month, day of week",
        key=field("cron", "0 2 * * *"),
        help="Such as */15 * * * * (every 15 minutes) or 0 6 1,15 * * (the 1st and 15th at 06:00).",
    ).strip()


def _at() -> str:
    at = st.time_input("At", key=field("at", _DEFAULT_AT), step=300) or _DEFAULT_AT
    return f"{at.minute} {at.hour}"


@cache
def _zones() -> list[str]:
    return sorted(available_timezones())


def _zone_of_browser() -> str:
    zone = st.context.timezone or "UTC"
    return zone if zone in _zones() else "UTC"


_FIELDS: Mapping[str, Callable[[], str]] = {
    "hour": _hourly,
    "day": _daily,
    "weekdays": _on_weekdays,
    "week": _weekly,
    "month": _monthly,
    "cron": _by_cron,
}
