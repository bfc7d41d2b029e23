"""What is kept of a schedule that people have made, beside its times and parameters."""

from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

SLUG = "carrel-page?"
"""What the slug of a schedule begins with that people have made, and no file."""


@dataclass(frozen=True, slots=True)
class Label:
    """What is kept of a schedule beside its times and parameters, in its slug, which Prefect shows too."""

    name: str
    made_by: str = ""
    changed_by: str = ""
    key: str = ""
    """Tells schedules apart; two of one key can't be made."""

    @property
    def slug(self) -> str:
        """The slug that holds this."""
        return SLUG + urlencode({"name": self.name, "by": self.made_by, "changed": self.changed_by, "key": self.key})

    @staticmethod
    def of(slug: str | None) -> "Label | None":
        """Return what a slug holds; None for the slug of anything else."""
        if slug is None or not slug.startswith(SLUG):
            return None
        held = {name: values[0] for name, values in parse_qs(slug.removeprefix(SLUG)).items()}
        return Label(held.get("name", ""), held.get("by", ""), held.get("changed", ""), held.get("key", ""))
