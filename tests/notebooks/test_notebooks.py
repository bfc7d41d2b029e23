"""The notebooks run against `python -m service`, find the truth, and read well as stored. They share a sample
organization and change only logs and the page Quality."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import Any, TypeAlias

import nbformat
import pytest
from nbformat import NotebookNode

from carrel import Carrel, judgements
from carrel.evaluation import ndcg
from sample.organization import DIRECTORY, MANIFEST, NAME
from scripts import run_notebooks
from scripts.run_notebooks import notebooks, run
from tests.harness.first_start import bring_database, bring_model
from tests.harness.parsing import parse_python
from tests.properties.model import EVERYONE, Model
from tests.service.test_questions import SAMPLE_QUESTIONS, questions_of, rows_of, who_may_read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

Ran: TypeAlias = dict[Path, dict[str, Any]]
MODES = ("HYBRID", "LEXICAL", "SEMANTIC")
LOAD, AUDIT, QUALITY, CHAT, OPERATIONS = notebooks()
_FINDINGS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("found.toml").read_text())
FOUND = dict(zip(notebooks(), _FINDINGS.values(), strict=True))
# What a deployment's analyst has, besides Python itself.
INSTALLED = {"carrel", "flows", "matplotlib", "numpy", "pandas"}
# Not the paths of documents, which begin with no slash, nor those in an address.
ABSOLUTE = re.compile(r"(?<![\w.:/~-])/[a-z_.-]+/|[A-Z]:\\\\", re.IGNORECASE)
OWN_ADDRESS = re.compile(r"127\.0\.0\.1|localhost|\[::1\]")


@pytest.fixture(scope="module")
def organization() -> Iterator[dict[str, str]]:
    environment_of = run_notebooks._environment

    def bring(folder: Path) -> dict[str, str]:
        bring_database(folder)
        bring_model(folder)
        return environment_of(folder) | {"CARREL_WORKERS": "1", "CARREL_EXTRACTION_WORKERS": "1"}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_notebooks, "_environment", bring)
        with run_notebooks.sample_organization() as environment:
            yield environment


def kept(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def code_of(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shapes(notebook: NotebookNode) -> list[list[tuple[str, list[str], int]]]:
    shown = [[(output.output_type, output.get("data", {})) for output in cell.outputs] for cell in code_of(notebook)]
    return [[(kind, sorted(data), data.get("text/html", "").count("<tr")) for kind, data in cell] for cell in shown]


def findings(organization: Mapping[str, str]) -> Ran:
    parts = {path: kept(path) for path in FOUND}
    for path, notebook in parts.items():
        entries = ", ".join(f"{name!r}: {expression}" for name, expression in FOUND[path].items())
        source = f"import json\nprint(json.dumps({{{entries}}}, default=str))"
        notebook.cells += [nbformat.v4.new_code_cell(source), nbformat.v4.new_code_cell("%reset -f")]
    run(nbformat.v4.new_notebook(cells=[cell for each in parts.values() for cell in each.cells]), organization)
    for path, notebook in parts.items():
        assert shapes(notebook)[:-2] == shapes(kept(path)), path
    return {path: json.loads(code_of(notebook)[-2].outputs[0].text) for path, notebook in parts.items()}


def readers_of(model: Model) -> dict[str, set[str]]:
    return {
        name: {person for person in model.users if document in model.readable(person)}
        for document, name in ({row["externalId"]: row["name"] for row in rows_of(MANIFEST)}).items()
    }


def what_is_loaded_is_found_by_those_who_may(found: dict[str, Any], client: Carrel) -> None:
    assert found["statuses"] == ["CREATED"] * 4
    assert (found["first"]["HYBRID"], found["first"]["SEMANTIC"]) == ("Garage", "Garage")
    assert found["kinds"] == ["house note"]
    assert ["Offers for the new roof" in names for names in found["seen"]] == [True, False]
    assert found["feedback"] in {str(entry.audit_log_id) for entry in client.admin.audit_log.query()}
    documents = {document.document_external_id for document in client.catalog.list_documents()}
    assert documents == {row["externalId"] for row in rows_of(MANIFEST)}


def the_audit_counts_whom_the_manifest_lets_read(found: dict[str, Any], client: Carrel) -> None:
    model = who_may_read()
    names = {row["externalId"]: row["name"] for row in rows_of(MANIFEST)}
    closed = {names[external_id] for external_id, one in model.documents.items() if EVERYONE not in one.viewers}
    assert found["reach"] == {name: len(people) for name, people in readers_of(model).items() if name in closed}
    assert found["ways"] == [1, 2]
    assert found["gained"] == len(found["chosen"]) == 5
    assert found["why"] == [True, False]
    assert found["as_before"] is True
    assert list(client.admin.groups.list(query="Permission audit")) == []
    assert list(client.catalog.list_documents(document_name="Permission audit")) == []


def the_scores_are_those_of_the_same_searches_here(found: dict[str, Any], client: Carrel) -> None:
    questions = questions_of(SAMPLE_QUESTIONS)

    def score(question: str, document: str) -> float:
        answer = client.search.search_document_catalog(question)
        return ndcg([each.document_external_id for each in answer.results], {document: 1})

    expected = mean(score(*each) for each in questions)
    assert found["scores"].keys() == {*MODES}
    assert found["scores"]["HYBRID"] == pytest.approx(expected)
    assert found["scores"]["HYBRID"] > max(found["scores"]["LEXICAL"], found["scores"]["SEMANTIC"])
    own, judged = reversed(list(client.admin.evaluation_sets.list()))
    assert {case.question for case in client.admin.evaluation_sets.list_cases(own.evaluation_set_id)} == {
        *found["missed"]
    }
    assert judgements.read(found["file"]) == {one: {dict(questions)[one]: 1} for one in found["missed"]}
    runs = list(client.admin.evaluation_sets.list_runs(judged.evaluation_set_id))
    assert {run.mode: run.ndcg for run in runs} == pytest.approx(found["scores"])
    assert found["empty"] == {"kayak rental": 2, "gearbox": 1, "Fahrplan Sonntag": 1}
    assert found["people"] == ["Jonas Abara"]
    assert found["feedback"] == found["last"] == found["week"]
    logged = list(client.admin.search_log.query(feedback="THUMBS_DOWN"))
    assert found["feedback"]["THUMBS_DOWN"] == len(logged) > 0


def every_quote_stands_in_its_document(found: dict[str, Any], client: Carrel) -> None:
    assert all(found["stand"])
    assert len(found["stand"]) == len(found["quotes"]) > 4
    for document, quote in found["quotes"]:
        texts = [chunk.text for chunk in client.document_collections.get_document_chunks(document)]
        assert all(any(line in text for text in texts) for line in quote.splitlines())
    most, *_, fewest = found["quoted"]
    assert most != fewest, "access decides what is quoted"
    assert found["error"] == "conversation_not_found"
    assert sum(found["log"].values()) == 10
    assert found["log"]["UNANSWERED"] > 0


def operators_see_what_a_night_has_brought(found: dict[str, Any]) -> None:
    assert found["loaded"] == len(rows_of(MANIFEST))
    assert found["ending"] == ["API key Nightly loading"]
    assert {"kayak rental", "gearbox"} <= {*found["unanswered"]}
    assert {"group.create", "group.members"} <= {*found["changes"]}


def test_they_run_and_what_they_find_is_true(organization: dict[str, str]) -> None:
    """A single test: several tests would load the organization and run the notebooks in each test process."""
    found = findings(organization)
    with Carrel(organization["CARREL_API_KEY"], base_url=organization["CARREL_BASE_URL"]) as client:
        what_is_loaded_is_found_by_those_who_may(found[LOAD], client)
        the_audit_counts_whom_the_manifest_lets_read(found[AUDIT], client)
        the_scores_are_those_of_the_same_searches_here(found[QUALITY], client)
        every_quote_stands_in_its_document(found[CHAT], client)
    operators_see_what_a_night_has_brought(found[OPERATIONS])
    they_run_in_any_organization(organization)


def they_run_in_any_organization(organization: Mapping[str, str]) -> None:
    other = another_organization(organization)
    cells, sentences = [*kept(LOAD).cells, *kept(OPERATIONS).cells], {}
    for path, sentence in ((AUDIT, "nothing to audit"), (QUALITY, "nothing to search"), (CHAT, "No agent answers")):
        for cell in code_of(kept(path)):
            cells.append(cell)
            if sentence in cell.source:
                cell.metadata.tags = ["raises-exception"]
                sentences[sentence] = cell
                break
    run(nbformat.v4.new_notebook(cells=cells), other)
    assert len(sentences) == 3
    for sentence, cell in sentences.items():
        [error] = [output for output in cell.outputs if output.output_type == "error"]
        assert [sentence in line for line in error.traceback] == [True]
    with Carrel(other["CARREL_API_KEY"], base_url=other["CARREL_BASE_URL"]) as client:
        bake(client)
    cells = [cell for path in (AUDIT, QUALITY, CHAT) for cell in kept(path).cells]
    run(nbformat.v4.new_notebook(cells=cells), other)


def another_organization(organization: Mapping[str, str]) -> dict[str, str]:
    create = ["-m", "service", "organization", "create", "--name", "Bakery", "--admin-email", "ada@bakery.example"]
    made = subprocess.run([sys.executable, *create], env=dict(organization), capture_output=True, text=True, check=True)
    return {**organization, "CARREL_API_KEY": made.stdout.partition("api_key=")[2].split()[0]}


def bake(client: Carrel) -> None:
    ann = "ann@bakery.example"
    client.admin.users.upsert([{"email": ann, "name": "Ann"}, {"email": "bob@bakery.example", "name": "Bob"}])
    [group] = client.admin.groups.upsert([{"name": "Bakers", "members": [{"type": "user", "email": ann}]}]).groups
    recipes = client.document_collections.create_document_collection("Recipes").document_collection_id
    closed = {"allowed_group_ids": [group.id]}
    for text, readers in {
        "Bread: knead the dough, and let it rest for an hour.": {"internal_public": True},
        "Prices of flour, which are a secret.": closed,
        "The oven is cleaned on Mondays.": closed,
    }.items():
        uploaded = client.catalog.upload_file(
            text.encode(),
            document_external_id=text[:5],
            document_name=text,
            file_name="a.txt",
            await_vector_store_sync=True,
            **readers,
        )
        client.document_collections.add_document_to_collection(
            document_id=uploaded.document_id, document_collection_id=recipes, custom_metadata={}
        )
    agent = client.admin.agents.create("Baker's desk", collection_ids=[recipes], api_access_enabled=True)
    client.admin.agents.deploy(agent.agent_id, organization_wide=True)


def test_they_name_nothing_of_the_sample() -> None:
    directory = json.loads(DIRECTORY.read_text())
    names = {NAME, directory["collection"]["name"], directory["agent"]["name"]}
    names |= {name for user in directory["users"] for name in (user["email"], user["name"], user["name"].split()[0])}
    names |= {row["name"] for row in rows_of(MANIFEST) if " " in row["name"]}
    for path in notebooks():
        written = "\n".join(cell.source for cell in kept(path).cells)
        assert [name for name in names if re.search(rf"\b{re.escape(name)}\b", written)] == [], path


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_kept_notebook_was_run_from_top_to_bottom_and_says_nothing_of_where(path: Path) -> None:
    notebook = kept(path)
    cells = code_of(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"execute_result", "display_data", "stream"}
    assert {output.name for output in outputs if output.output_type == "stream"} <= {"stdout"}
    shown = [each for output in outputs for each in output.get("data", {}).items()]
    assert [kind for kind, _ in shown].count("text/html") >= 3
    assert [kind for kind, _ in shown].count("image/png") >= 1
    assert path.stat().st_size < 1_000_000
    texts = [output.get("text", "") for output in outputs] + [text for kind, text in shown if kind != "image/png"]
    said = "\n".join(texts).replace("</", "<")  # tags are no paths
    for pattern in (ABSOLUTE, OWN_ADDRESS):
        assert not pattern.findall(said), pattern
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_notebook_needs_only_what_analysts_have(path: Path) -> None:
    imported = {
        name.partition(".")[0]
        for cell in code_of(kept(path))
        for node in ast.walk(parse_python(cell.source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported
    assert imported - sys.stdlib_module_names <= INSTALLED
