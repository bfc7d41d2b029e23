"""Names of files are safe to show, to store and to offer for download."""

import pytest

from service.platform.errors import BadRequest
from service.platform.file_names import clean_file_name


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ada\\plan.docx", "plan.docx"),
        ("/abs/olute.md", "olute.md"),
        ("🍐👩‍🌾 harvest.md", "🍐👩‍🌾 harvest.md"),
        ("cod\u202efdp.exe", "codfdp.exe"),
        ("\u2067x\u2069\u200f.md", "x.md"),
        ("a\r\nSet-Cookie: x.md", "aSet-Cookie: x.md"),
        ("tab\there\x1b[31m.md", "tabhere[31m.md"),
        ("u\u0308ber.md", "über.md"),
        ("  spaced .md ", "spaced .md"),
        (".hidden", ".hidden"),
    ],
)
def test_a_name_keeps_what_it_says(given, kept):
    assert clean_file_name(given) == kept


@pytest.mark.parametrize("given", ["", ".", "..", "a/..", "folder/", "\u202e", "nul\x00.md", "x" * 256])
def test_a_name_that_names_nothing_is_refused(given):
    with pytest.raises(BadRequest) as caught:
        clean_file_name(given)
    assert caught.value.code == "file_name_invalid"
