"""Sources: items of a folder, a glob and a manifest, and refusals."""

import hashlib
import json
import os
import re
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from flows.errors import SourceError
from flows.operations.ledger.ledger import Ledger
from flows.operations.names import Names
from flows.operations.scan import scan
from flows.operations.sources import contents
from flows.operations.sources.documents import Access, Defaults, Problem, Skipped, SourceDocument, SourceItem
from flows.operations.sources.manifest import ManifestRow
from flows.operations.sources.reading import read_source, source_identity
from tests.harness.cases import document


def _read(source: Path | str, defaults: Defaults | None = None) -> list[SourceItem]:
    return list(read_source(str(source), defaults=defaults or Defaults()))


def _documents(items: list[SourceItem]) -> list[SourceDocument]:
    return [item for item in items if isinstance(item, SourceDocument)]


def _problems(items: list[SourceItem]) -> list[Problem]:
    return [item for item in items if isinstance(item, Problem)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "library"
    for name in ("b.md", "a/one.txt", "a/two.txt", ".git/config", "a/.hidden"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def test_folder_and_glob_give_relative_posix_ids_in_a_stable_order(folder: Path) -> None:
    found = _documents(_read(folder))
    ids = ["a/one.txt", "a/two.txt", "b.md"]
    assert [item.external_id for item in found] == ids
    assert [item.name for item in found] == ["one.txt", "two.txt", "b.md"]
    moved = folder.rename(folder.with_name("elsewhere"))
    assert [item.external_id for item in _documents(_read(f"{moved}/../elsewhere/"))] == ids
    assert [item.external_id for item in _documents(_read(f"{moved}/**/*.txt"))] == ids[:2]


def test_hidden_files_are_left_out_and_said(folder: Path) -> None:
    skipped = [item for item in _read(folder) if isinstance(item, Skipped)]
    assert {(item.place, item.reason) for item in skipped} == {(".git", "hidden"), ("a/.hidden", "hidden")}
    assert ".git/config" in [item.external_id for item in _documents(_read(folder, Defaults(hidden=True)))]


def test_links_that_lead_out_are_refused(folder: Path) -> None:
    sibling = folder.with_name("library-secret")
    sibling.mkdir()
    for secret in (folder.parent / "secret.txt", sibling / "s.txt"):
        secret.write_text("secret")
        (folder / f"escape-{secret.name}").symlink_to(secret)
    (folder / "escaping-folder").symlink_to(folder.parent)
    (folder / "inside.txt").symlink_to(folder / "b.md")
    (folder / "loop").symlink_to(folder)
    (folder / "broken.txt").symlink_to(folder / "nowhere")
    for items in (_read(folder), _read(f"{folder}/*")):
        escaping = {item.place for item in _problems(items) if item.code == "link_escapes"}
        assert escaping >= {"escape-secret.txt", "escape-s.txt"}
        assert {item.place for item in _problems(items) if item.code == "link_broken"} == {"broken.txt"}
        assert "secret" not in "".join(Path(item.path).read_text() for item in _documents(items))
    inside = next(item for item in _documents(_read(folder)) if item.external_id == "inside.txt")
    assert (inside.path, inside.file_name) == (str((folder / "b.md").resolve()), "inside.txt")


def test_name_that_is_no_utf8_costs_itself_alone(folder: Path) -> None:
    inside, strange = os.fsencode(folder), os.fsencode(folder) + b"/caf\xe9"
    Path(os.fsdecode(strange)).mkdir()
    Path(os.fsdecode(strange + b"/menu.md")).write_text("soup")
    Path(os.fsdecode(inside + b"/link.md")).symlink_to(os.fsdecode(strange + b"/menu.md"))
    Path(os.fsdecode(inside + b"/out\xe9")).symlink_to("/etc/hostname")
    for items in (_read(folder), _read(f"{folder}/*")):
        assert {item.place for item in _problems(items)} == {"caf\\udce9", "link.md", "out\\udce9"}
        assert {item.code for item in _problems(items)} == {"name_undecodable"}
        assert "b.md" in [item.external_id for item in _documents(items)]
    (item,) = _manifest(folder, "path\nlink.md\n")
    assert isinstance(item, Problem)
    with pytest.raises(SourceError, match="UTF-8"):
        source_identity(os.fsdecode(strange))


@pytest.mark.parametrize("source", ["missing", "missing/*.md", "library/**.md"])
def test_unreadable_source_says_what_to_give(folder: Path, source: str) -> None:
    with pytest.raises(SourceError, match=r"folder|pattern"):
        _read(folder.parent / source)


def test_a_single_file_is_the_one_document_of_its_source(folder: Path) -> None:
    [item] = _documents(_read(folder / "b.md"))
    assert (item.external_id, item.file_name) == ("b.md", "b.md")
    assert source_identity(str(folder / "b.md")) != source_identity(str(folder))
    (folder / ".hidden.md").write_text("text")
    assert not _documents(_read(folder / ".hidden.md"))


def test_a_link_that_is_a_source_is_a_link_as_everywhere(folder: Path) -> None:
    inside, outside = folder / "inside.md", folder / "outside.md"
    inside.symlink_to(folder / "b.md")
    [item] = _documents(_read(inside))
    assert (item.external_id, item.file_name) == ("inside.md", "inside.md")
    assert source_identity(str(inside)) == f"{folder.resolve()}/inside.md"
    (folder.parent / "secret.md").write_text("secret")
    outside.symlink_to(folder.parent / "secret.md")
    assert [item.code for item in _problems(_read(outside))] == ["link_escapes"]


def test_identity_is_the_same_however_it_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert source_identity("library") == source_identity(f"{folder}/") == source_identity("library/a/..")
    assert source_identity("library/*.md") == source_identity(f"{folder}/*.md") != source_identity("library")


def _manifest(folder: Path, text: str | bytes, name: str = "manifest.csv") -> list[SourceItem]:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return _read(path)


def test_csv_manifest_gives_all_that_goes_with_a_file(folder: Path) -> None:
    items = _manifest(
        folder,
        "path,externalId,name,metadata,metadata.team,allowedUsers,allowedGroups,internalPublic,collection,externalUrl\n"
        'b.md,id-1,"Name, with comma",,ops,a@x.org;b@x.org,"G1, G2",false,Policies,https://x.org/b\n'
        'a/one.txt,,,"{""year"": 2024}",,,,,,\n',
    )
    first, second = _documents(items)
    assert (first.external_id, first.name, first.metadata) == ("id-1", "Name, with comma", {"team": "ops"})
    assert first.access == Access(users=("a@x.org", "b@x.org"), groups=("G1", "G2"), internal_public=False)
    assert (first.collection, first.external_url) == ("Policies", "https://x.org/b")
    assert (second.external_id, second.access, second.metadata) == ("a/one.txt", None, {"year": "2024"})


def test_jsonl_manifest_gives_the_same(folder: Path) -> None:
    line = {"path": "./a/../b.md", "allowedUsers": ["a@x.org"], "internalPublic": True}
    line |= {"metadata": {"n": 1, "ok": True}}
    (document,) = _documents(_manifest(folder, json.dumps(line), "manifest.jsonl"))
    assert document.external_id == "b.md"
    assert document.access == Access(users=("a@x.org",), internal_public=True)
    assert document.metadata == {"n": "1", "ok": "true"}
    # False, or an empty list, is access that replaces; an absent member is none.
    lines = ['{"path": "b.md", "internalPublic": false}', '{"path": "b.md", "allowedUsers": []}', '{"path": "b.md"}']
    found = _documents(_manifest(folder, "\n".join(lines), "m.jsonl"))
    assert [item.access for item in found] == [Access(), Access(), None]


def test_every_bad_row_is_named_by_its_line_and_the_good_ones_stay(folder: Path) -> None:
    items = _manifest(folder, document("bad-rows.csv"))
    assert [item.external_id for item in _documents(items)] == ["ok-1", "ok-2"]
    assert [(item.place, item.code) for item in _problems(items)] == [
        ("line 3", "file_missing"),
        ("line 4", "path_escapes"),
        *((f"line {line}", "row_invalid") for line in (5, 6, 8, 9, 10)),
    ]
    assert _problems(_manifest(folder, 'path,metadata\nb.md,"{""a"":1,}"\n'))[0].message == (
        "metadata: is not valid JSON: line 1, column 8: a trailing comma"
    )


def test_unbalanced_quote_is_a_problem_of_its_line(folder: Path) -> None:
    items = _manifest(folder, 'path,externalId\nb.md,fine\nb.md,"open\nb.md,lost\n')
    assert [item.external_id for item in _documents(items)] == ["fine"]
    assert [item.place for item in _problems(items)] == ["line 3"]


@pytest.mark.parametrize(
    "line", ["[1]", "{", '{"path": "b.md", "path": "c"}', '{"path": "b.md", "allowed": []}', "[" * 9999]
)
def test_bad_jsonl_lines_are_problems(folder: Path, line: str) -> None:
    items = _manifest(folder, f'{line}\n{{"path": "b.md"}}\n', "m.jsonl")
    assert [item.place for item in _problems(items)] == ["line 1"]
    assert len(_documents(items)) == 1


@pytest.mark.parametrize("header", ["", "externalId,name", "path,owner", "path,path"])
def test_wrong_header_stops_before_the_first_row(folder: Path, header: str) -> None:
    with pytest.raises(SourceError, match="internalPublic"):
        _manifest(folder, f"{header}\nb.md,x\n")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("start", ["", "sep=,\n", "sep=;\n", '"sep=\t"\n'], ids=repr)
def test_a_manifest_from_a_spreadsheet_is_read_whole(folder: Path, start: str, encoding: str) -> None:
    lines = [
        "path,name,internalPublic,allowedUsers",
        "a\\one.txt,Übersicht €,WAHR,",
        "b.md,,FALSCH,-",
        ",,,",
        "b.md,,,",
    ]
    delimiter = start.strip('"\n')[-1:] or ","
    text = start + "\r\n".join(lines).replace(",", delimiter)
    one, nobody, kept = _documents(_manifest(folder, text.encode(encoding)))
    assert (one.external_id, one.name, one.access) == ("a/one.txt", "Übersicht €", Access(internal_public=True))
    assert (nobody.access, kept.access, nobody.keeps_readers, kept.keeps_readers) == (Access(), None, False, True)


@pytest.mark.parametrize("name", ["m.csv", "m.jsonl"])
def test_a_manifest_in_another_encoding_says_how_to_save_it(folder: Path, name: str) -> None:
    with pytest.raises(SourceError, match="CSV UTF-8"):
        _manifest(folder, 'path\n{"path": "Größe.md"}\nÜbersicht.md'.encode("cp1252"), name)
    assert "CSV UTF-8" in _problems(_manifest(folder, b"path\nb.md\n" * 9 + b"\xdc.md", name))[-1].message


@pytest.mark.parametrize(("yes", "no"), [("vrai", "FAUX"), ("VERO", "falso"), ("DOĞRU", "YANLIŞ"), ("ИСТИНА", "ЛОЖЬ")])
def test_flags_are_read_in_other_languages(folder: Path, yes: str, no: str) -> None:
    found = _documents(_manifest(folder, f"path,externalId,internalPublic\nb.md,1,{yes}\nb.md,2,{no}\n"))
    assert [item.access for item in found] == [Access(internal_public=True), Access()]


def test_names_in_either_form_of_unicode_are_one_document(folder: Path) -> None:
    composed, decomposed = "Übung/Ärger.md", "U\u0308bung/A\u0308rger.md"
    (folder / decomposed).parent.mkdir()
    (folder / decomposed).write_text("x")
    assert composed in {item.external_id for item in _documents(_read(folder))}
    for written in (composed, decomposed, composed.replace("/", "\\")):
        assert [item.external_id for item in _documents(_manifest(folder, f"path\n{written}\n"))] == [composed]
    assert [item.external_id for item in _documents(_read(f"{folder}/{composed[:-5]}*.md"))] == ["Ärger.md"]


def test_a_file_that_is_written_to_is_left_for_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "QUIET_SECONDS", 60.0)
    names = ["long.md", "young.md", "younger.md"]
    append = lambda name: (tmp_path / name).write_text("Half, and half")  # noqa: E731
    for name in names:
        (tmp_path / name).write_text("Half")
    os.utime(tmp_path / "long.md", (1, 1))
    slept = list[float]()
    monkeypatch.setattr("time.sleep", lambda seconds: (slept.append(seconds), *map(append, names[1:])))
    digest = hashlib.file_digest
    monkeypatch.setattr("hashlib.file_digest", lambda *given: (append("long.md"), digest(*given))[1])
    with Ledger.at(tmp_path / "ledgers", target="t", source="s") as ledger:
        found = contents.hash_files(ledger, [str(tmp_path / name) for name in names])
    assert ([type(one) for one in found.values()], len(slept)) == ([contents.ChangingFileError] * 3, 1)


def test_manifest_links_out_of_the_folder_are_refused(folder: Path) -> None:
    outside = folder.parent / "outside.txt"
    outside.write_text("x")
    (folder / "link.txt").symlink_to(outside)
    items = _manifest(folder, f"path\nlink.txt\n{outside}\n{folder}/b.md\n")
    assert [item.code for item in _problems(items)] == ["path_escapes", "path_escapes"]
    assert [item.external_id for item in _documents(items)] == ["b.md"]


def test_row_takes_defaults_only_where_it_says_nothing(folder: Path) -> None:
    path = folder / "m.jsonl"
    path.write_text('{"path": "b.md"}\n{"path": "b.md", "allowedUsers": ["a@x.org"], "metadata": {"k": "row"}}\n')
    defaults = Defaults(access=Access(internal_public=True), metadata={"k": "run", "j": "run"}, collection="C")
    plain, own = _documents(_read(path, defaults))
    assert (plain.access, plain.metadata, plain.collection) == (defaults.access, {"k": "run", "j": "run"}, "C")
    assert (own.access, own.metadata) == (Access(users=("a@x.org",)), {"k": "row", "j": "run"})


def test_the_page_on_manifests_names_every_column_and_its_example_is_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "loading.md").read_text()
    named = re.findall(r"^\| `(\w+)`", page.partition("| column |")[2].partition("\n\n")[0], re.MULTILINE)
    assert named == [field.alias or name for name, field in ManifestRow.model_fields.items()]
    for name in ("reports/q3.pdf", "travel.md", "minutes.docx"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    example = re.findall(r"^```csv\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0]
    assert [item.access for item in _documents(_manifest(tmp_path, example))] == [
        Access(users=("ada@example.com", "grace@example.com"), groups=("Finance",)),
        Access(internal_public=True),
        Access(groups=("Board",)),
    ]


async def test_external_id_the_service_cannot_take_costs_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    rows = [{"path": "a.md", "externalId": "x" * 1025}, {"path": "a.md", "externalId": "y" * 1024}]
    manifest = tmp_path / "m.jsonl"
    manifest.write_text("\n".join(map(json.dumps, rows)))
    with Ledger.at(tmp_path / "ledgers", target="t", source="s") as ledger:
        ledger.begin()
        names = Names(AsyncMock(), outages=AsyncMock())
        scanned = await scan(ledger, str(manifest), defaults=Defaults(), names=names)
        assert (scanned.documents, scanned.problems) == (1, 1)
        assert [(failure.place, failure.code) for failure in ledger.failures()] == [("line 1", "external_id_invalid")]
