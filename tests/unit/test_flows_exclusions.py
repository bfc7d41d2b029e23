"""Files excluded from a run by default, and the fingerprints and partitions of the rest."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from flows.operations.sources.documents import Access, Defaults, Skipped, SourceDocument, fingerprint_of, key_of
from flows.operations.sources.exclusions import EXCLUSIONS, FileSelection, advice, default_reason
from flows.operations.sources.reading import read_source

FILES = ("notes.md", "Package-Lock.json", "site/main.css", "site/app.min.js", "app.js", "tls/server.KEY", "tls/ca.crt")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (*FILES, ".env"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    return tmp_path


def _taken(source: Path | str, **selection: tuple[str, ...]) -> set[str]:
    items = read_source(str(source), defaults=Defaults(files=FileSelection(**selection)))
    return {item.external_id for item in items if isinstance(item, SourceDocument)}


def test_each_kind_is_left_out_with_its_reason(folder: Path) -> None:
    skipped = [item for item in read_source(str(folder), defaults=Defaults()) if isinstance(item, Skipped)]
    assert {item.place: item.reason for item in skipped} == {
        ".env": "keys and secrets",
        "tls/server.KEY": "keys and secrets",
        "tls/ca.crt": "certificates",
        "Package-Lock.json": "lock files",
        "site/app.min.js": "minified files and source maps",
        "site/main.css": "stylesheets",
    }
    assert _taken(folder) == {"notes.md", "app.js"}


def test_options_change_what_is_taken(folder: Path) -> None:
    assert _taken(folder, include=("*.css", "package-lock.json")) == {
        *("notes.md", "app.js", "Package-Lock.json", "site/main.css")
    }
    assert _taken(folder, include=("*",), exclude=("tls/*",)) == {name for name in FILES if "tls" not in name}
    assert _taken(folder, exclude=("*.md",)) == {"app.js"}


def test_source_that_names_a_kind_asks_for_it(folder: Path) -> None:
    assert _taken(f"{folder}/**/*.css") == {"site/main.css"}
    assert _taken(f"{folder}/**/*.js") == {"app.js"}
    manifest = folder / "manifest.csv"
    manifest.write_text("path,externalId\nsite/main.css,style\nnotes.md,a.key\n")
    assert _taken(manifest) == {"style", "a.key"}
    assert _taken(manifest, exclude=("*.key",)) == {"style"}


def test_link_does_not_disguise_a_secret(folder: Path) -> None:
    (folder / "readme.txt").symlink_to(folder / "tls" / "server.KEY")
    assert "readme.txt" not in _taken(folder)
    assert "readme.txt" in _taken(folder, include=("readme.txt",))


@pytest.mark.parametrize("reason", EXCLUSIONS)
def test_advice_takes_what_it_says(reason: str) -> None:
    for pattern in EXCLUSIONS[reason]:
        example = f"folder/{pattern.replace('*', 'a')}"
        advised = re.fullmatch(r"(?:--hidden )?--include '(.+)' adds them", advice(default_reason(example), example))
        assert not FileSelection(include=(advised[1],)).reason_to_exclude(example)


def test_documented_table_is_the_list() -> None:
    text = Path("docs/loading.md").read_text(encoding="utf-8")
    for reason, patterns in EXCLUSIONS.items():
        listed = ", ".join(f"`{pattern}`" for pattern in patterns)
        assert f"| {reason} | {listed} |" in text


DIGEST = bytes(32)
DOCUMENT = SourceDocument(
    path="/library/a.md",
    external_id="a",
    name="A",
    file_name="a.md",
    access=Access(users=("u",), groups=("g",)),
    metadata={"k": "v", "j": "w"},
    collection="c",
)


def test_fingerprint_fits_and_is_stable() -> None:
    fingerprint = fingerprint_of(DOCUMENT, sha256=DIGEST)
    assert fingerprint.startswith("1-")
    assert len(fingerprint) <= 128
    moved = replace(DOCUMENT, path="/elsewhere/a.md", metadata={"j": "w", "k": "v"}, place="line 9")
    assert fingerprint_of(moved, sha256=DIGEST) == fingerprint != fingerprint_of(DOCUMENT, sha256=b"\1" * 32)


@pytest.mark.parametrize(
    "changed",
    [
        replace(DOCUMENT, name="B"),
        replace(DOCUMENT, file_name="a.txt"),
        replace(DOCUMENT, access=None),
        replace(DOCUMENT, access=Access()),
        replace(DOCUMENT, access=Access(users=("u", "g"))),
        replace(DOCUMENT, access=Access(users=("u",), groups=("g",), internal_public=True)),
        replace(DOCUMENT, metadata={}),
        replace(DOCUMENT, metadata={"k": "v", "j": "x"}),
        replace(DOCUMENT, collection=None),
        replace(DOCUMENT, external_url="https://x.org"),
    ],
)
def test_fingerprint_changes_with_everything_that_is_sent(changed: SourceDocument) -> None:
    assert fingerprint_of(changed, sha256=DIGEST) != fingerprint_of(DOCUMENT, sha256=DIGEST)


def test_keys_are_stable_and_even() -> None:
    assert key_of("a/one.txt").hex() == "5fc7b47eb507c8b4bd45e40b8c6ed978"
    assert 850 < sum(key_of(f"doc-{number}") < bytes([64]) for number in range(4000)) < 1150
