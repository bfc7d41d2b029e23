"""Why files in archives and mails are left out, and the limits that some are left out by."""

from service.text.reading import Limits

# A file in an archive in an archive in an archive is brought; what an archive holds there isn't.
DEEPEST = 3
# A container of which so many files can't even be taken out is damaged, or meant to keep the readers busy.
MOST_FAILURES = 3
LIMITS = Limits()

Reason = tuple[str, str]
"""Why a file is left out: a code and a message, as an error of the API has them."""

TOO_DEEP: Reason = (
    "archive_too_deep",
    f"The file is in archives within archives, more than {DEEPEST} deep. Load the archive that it is in by itself.",
)
TOO_MUCH: Reason = (
    "archive_too_large",
    (
        f"All that comes out of one file is at most {LIMITS.archive_entries:,} files and"
        f" {LIMITS.archive_bytes >> 20:,} MiB. Load what is left as an archive of its own."
    ),
)
BROKEN: Reason = (
    "archive_unreadable",
    (
        f"After {MOST_FAILURES} files that could not be taken out, the rest was not tried. Unpack the archive, and load"
        " its files."
    ),
)
STOPPED: Reason = (
    "unpacking_stopped",
    (
        "Bringing the files into the catalog ended with an error, which the service's log has. Load the archive or mail"
        " again."
    ),
)
NOBODY: Reason = (
    "owner_not_active",
    "Neither who loaded the archive or mail nor its owner is active. Load it again as somebody who is.",
)
