"""`carrel check-notebook`, against the real service."""

import json
from pathlib import Path

from carrel import Carrel
from service.platform.secrets import PREFIXES, mint

ROOT = Path(__file__).parents[2]
PASSWORD, ADDRESS = "p&ss 'word' <1>", "postgresql://carrel:hidden-in-here@db.example/carrel"
LONG = "Minutes of the extraordinary meeting about the new quay"


def a_notebook(path: Path, *cells: dict) -> str:
    whole = [{"cell_type": "code", "source": [], "outputs": [], "metadata": {}, **cell} for cell in cells]
    path.write_text(json.dumps({"cells": whole, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path.name


def shows(text: str, kind: str = "text/plain") -> dict:
    return {"outputs": [{"output_type": "execute_result", "data": {kind: text.splitlines(keepends=True)}}]}


def test_credentials_are_found_and_not_shown(run, tmp_path: Path) -> None:
    values = [mint(prefix).value.get_secret_value() for prefix in PREFIXES]
    (tmp_path / ".env").write_text(f"# ours\nCARREL_BOOTSTRAP_ADMIN_PASSWORD={PASSWORD}\nCARREL_PORT=8000\n")
    name = a_notebook(
        tmp_path / "a.ipynb",
        {"source": [f"Carrel({values[0]!r}", ")"]},
        *(
            {"outputs": [{"output_type": "stream", "name": "stderr", "text": ["Bearer ", value, "\n"]}]}
            for value in values
        ),
        shows(f"<b>{PASSWORD}</b>".replace("&", "&amp;").replace("<1>", "&lt;1&gt;"), "text/html"),
        {"outputs": [{"output_type": "error", "traceback": ["\x1b[31mcannot connect with hidden-in-here"]}]},
        shows("svc_key_… is how a key begins, and 8000 a port"),
    )
    ended = run("check-notebook", "--credentials-only", name, CARREL_DATABASE_URL=ADDRESS, CARREL_BASE_URL=None)
    assert ended.code == 1, ended.err
    lines = ended.out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        f"a.ipynb, cell {number}, {part}"
        for number, part in [(1, "source"), *((n, "output") for n in range(2, len(values) + 4))]
    ]
    assert "API key" in lines[0]
    assert "session cookie" in ended.out
    assert "value of CARREL_BOOTSTRAP_ADMIN_PASSWORD" in lines[-2]
    assert "value of CARREL_DATABASE_URL" in lines[-1]
    for value in (*values, "<1>", "here"):
        assert value not in ended.out + ended.err
    found = run("check-notebook", "--credentials-only", name, "--json").json
    assert (found["exitCode"], found["findings"][0]["part"]) == (1, "source")


def test_documents_that_not_everybody_may_read_are_named(run, tmp_path: Path, service) -> None:
    ids: dict[str, object] = {}
    with Carrel(service.api_key, service.base_url) as client:
        for name, everybody in (("Pay bands", False), (LONG, False), ("R&D <plan>", False), ("Canteen", True)):
            names = {"document_external_id": name, "document_name": name, "file_name": "a.txt"}
            ids[name] = client.catalog.upload_file(name.encode(), internal_public=everybody, **names).document_id
        client.document_collections.create_document_collection("Boats")
    name = a_notebook(
        tmp_path / "a.ipynb",
        {"source": ["# Pay bands"]},
        shows("1  Pay bands\n2  Canteen\n3  Boats"),
        shows(f"  {LONG[:45]}..."),
        shows("<td>R&amp;D &lt;plan&gt;</td>", "text/html"),
        shows(f"UUID('{ids['Pay bands']}'), UUID('{ids['Canteen']}')"),
        shows("Pay bandsaws"),
        shows("Pay bands", "image/png"),
    )
    ended = run("check-notebook", name)
    assert ended.code == 1, ended.err
    assert ended.out.splitlines() == [
        "a.ipynb, cell 2, output: document “Pay bands”",
        f"a.ipynb, cell 3, output: document “{LONG}”",
        "a.ipynb, cell 4, output: document “R&D <plan>”",
        "a.ipynb, cell 5, output: document “Pay bands”",
    ]
    assert "Clear these outputs" in ended.err
    clean = a_notebook(tmp_path / "b.ipynb", shows("Canteen"))
    assert run("check-notebook", clean).code == 0
    refused = run("check-notebook", clean, CARREL_API_KEY=service.new_user("ada@example.test"))
    assert (refused.code, "--credentials-only" in refused.err) == (3, True)


def test_what_is_no_notebook_is_said(run, tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"cells": 1}', "[" * 100_000):
        (tmp_path / "x.ipynb").write_text(text)
        ended = run("check-notebook", "x.ipynb")
        assert (text[:20], ended.code, "x.ipynb is not a readable notebook" in ended.err) == (text[:20], 2, True)
    assert run("check-notebook", "missing.ipynb").code == 2
    (tmp_path / ".env").write_bytes(b"\xff")
    ended = run("check-notebook", a_notebook(tmp_path / "a.ipynb"))
    assert (ended.code, ".env is not valid UTF-8" in ended.err) == (2, True), ended


def test_the_notebooks_here_hold_no_credentials(run) -> None:
    kept = sorted(map(str, (ROOT / "notebooks").glob("*.ipynb")))
    assert kept
    assert run("check-notebook", "--credentials-only", *kept).code == 0
