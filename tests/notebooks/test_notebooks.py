"""The notebooks run from top to bottom against `python -m service`, find what is true, and read well as they are kept.

They run over one sample organization, which each leaves as it was, but for what the logs keep.
"""

import ast
import copy
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode

from carrel import Carrel
from carrel.evaluation import ndcg
from sample.organization import MANIFEST
from scripts.run_notebooks import notebooks, run, sample_organization
from tests.properties.model import EVERYONE, Model
from tests.service.test_questions import SAMPLE_QUESTIONS, questions_of, rows_of, who_may_read

pytestmark = pytest.mark.timeout(900)

MODES = ("HYBRID", "LEXICAL", "SEMANTIC")
LOAD, AUDIT, QUALITY, CHAT = notebooks()
# What a deployment's analyst has, besides Python itself.
INSTALLED = {"carrel", "flows", "matplotlib", "numpy", "pandas"}
SECRETS = re.compile(r"svc_(key|at|rt)_|Bearer |password", re.IGNORECASE)
# Not the paths of documents, which begin with no slash, nor those in an address.
ABSOLUTE = re.compile(r"(?<![\w.:/~-])/[a-z_.-]+/|[A-Z]:\\\\", re.IGNORECASE)
OWN_ADDRESS = re.compile(r"127\.0\.0\.1|localhost|\[::1\]")


@pytest.fixture(scope="module")
def organization() -> Iterator[dict[str, str]]:
    """The environment of an analyst: a service process with the sample organization, and an admin's key."""
    with sample_organization() as environment:
        yield environment


@pytest.fixture(scope="module")
def client(organization: Mapping[str, str]) -> Iterator[Carrel]:
    """The admin's client of it."""
    with Carrel(organization["CARREL_API_KEY"], base_url=organization["CARREL_BASE_URL"]) as client:
        yield client


def kept(path: Path) -> NotebookNode:
    """A notebook as it is in the repository."""
    return nbformat.read(path, as_version=4)


def code_of(notebook: NotebookNode) -> list[NotebookNode]:
    """Its cells that are run."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shapes(notebook: NotebookNode) -> list[list[tuple[str, list[str], int]]]:
    """What each cell shows, but for the words: text or not, a picture or not, and how many rows a table has."""
    return [
        [
            (
                output.output_type,
                sorted(output.get("data", {})),
                output.get("data", {}).get("text/html", "").count("<tr"),
            )
            for output in cell.outputs
        ]
        for cell in code_of(notebook)
    ]


def found_by(path: Path, organization: Mapping[str, str], **expressions: str) -> dict[str, Any]:
    """Run a notebook, and return what these expressions are at its end; it must show what the kept one does."""
    notebook = kept(path)
    expected = shapes(notebook)
    entries = ", ".join(f"{name!r}: {expression}" for name, expression in expressions.items())
    source = f"import json\nprint(json.dumps({{{entries}}}, default=str))"
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    run(notebook, organization)
    *shown, (last,) = [cell.outputs for cell in code_of(notebook)]
    assert shapes(notebook)[:-1] == expected
    assert len(shown) == len(expected)
    return json.loads(last.text)


def readers_of(model: Model) -> dict[str, set[str]]:
    """The people who may read each document, by its name; whoever loaded everything is not among them."""
    names = {row["externalId"]: row["name"] for row in rows_of(MANIFEST)}
    return {
        name: {person for person in model.users if document in model.readable(person)}
        for document, name in names.items()
    }


def test_what_is_loaded_is_found_by_those_who_may(organization: Mapping[str, str], client: Carrel) -> None:
    """By question, by mode and by person; and nothing of it stays."""
    found = found_by(
        LOAD,
        organization,
        statuses="[each.status for each in uploaded.values()]",
        first="{mode: frame['document_name'][0] for mode, frame in frames.items()}",
        kinds="found.to_frame()['custom_metadata.kind'].unique().tolist()",
        seen="{person: [each.document_name for each in answer.results] for person, answer in seen.items()}",
        feedback="kept.audit_log_id",
    )
    assert found["statuses"] == ["CREATED"] * 4
    assert found["first"] == dict.fromkeys(MODES, "Harwell")
    assert found["kinds"] == ["harbour note"]
    works = "Works at berth 2, Skerry Point"
    assert {person.split(".")[0]: works in names for person, names in found["seen"].items()} == {
        "bram": True,
        "freya": False,
    }
    assert found["feedback"] in {str(entry.audit_log_id) for entry in client.admin.audit_log.query()}
    documents = {document.document_external_id for document in client.catalog.list_documents()}
    assert documents == {row["externalId"] for row in rows_of(MANIFEST)}


def test_the_audit_counts_whom_the_manifest_lets_read(organization: Mapping[str, str], client: Carrel) -> None:
    """Before and after what the notebook changes; and the change is taken back."""
    before = who_may_read()
    after = copy.deepcopy(before)
    after.groups["Leadership"].add("Operations")
    after.documents["operations/roster-week-48.xlsx"].viewers.add(EVERYONE)
    had, have = readers_of(before), readers_of(after)
    sensitive = {row["name"] for row in rows_of(MANIFEST) if json.loads(row["metadata"])["confidential"] == "true"}

    found = found_by(
        AUDIT,
        organization,
        reach="reach.to_dict()",
        widened="widened.to_dict('index')",
        gained="after.difference.gained",
        as_before="as_before",
    )
    assert found["reach"] == {name: len(had[name]) for name in sensitive}
    # The owner of everything is a reader too.
    assert found["widened"] == {
        name: {"before": len(had[name]) + 1, "after": len(have[name]) + 1} for name in had if have[name] > had[name]
    }
    assert found["gained"] == sum(len(have[name] - had[name]) for name in had)
    assert found["as_before"] is True
    pay_bands = next(iter(client.catalog.list_documents(document_name="Pay bands")))
    readers = {
        one.email
        for one in client.permissions.list_authorized_principals_for_resource(pay_bands.resource)
        if one.type == "user"
    }
    assert readers - {pay_bands.owner.email} == had["Pay bands"]


def test_the_scores_are_those_of_the_same_searches_here(organization: Mapping[str, str], client: Carrel) -> None:
    """And the search log's queries without results are those that find nothing their asker may read."""
    questions = questions_of(SAMPLE_QUESTIONS)

    def score(question: str, document: str) -> float:
        answer = client.search.search_document_catalog(question)
        return ndcg([each.document_external_id for each in answer.results], {document: 1})

    expected = mean(score(*each) for each in questions)
    found = found_by(
        QUALITY,
        organization,
        scores="scores.mean().to_dict()",
        questions="len(scores)",
        empty="empty['query'].value_counts().to_dict()",
        people="empty[empty['query'] == 'gearbox']['actor.name'].tolist()",
        feedback="rated['feedback'].value_counts().to_dict()",
        last="counts.iloc[-1].to_dict()",
        week="week.to_frame()[['thumbs_up', 'thumbs_down']].sum().rename(str.upper).to_dict()",
    )
    assert found["questions"] == len(questions)
    assert found["scores"].keys() == {*MODES}
    assert found["scores"]["HYBRID"] == pytest.approx(expected)
    assert found["scores"]["HYBRID"] > max(found["scores"]["LEXICAL"], found["scores"]["SEMANTIC"])
    assert found["empty"] == {"kayak rental": 2, "gearbox": 1, "Fahrplan Sonntag": 1}
    assert found["people"] == ["Jonas Abara"]
    assert found["feedback"] == found["last"] == found["week"]
    logged = list(client.admin.search_log.query(feedback="THUMBS_DOWN"))
    assert found["feedback"]["THUMBS_DOWN"] == len(logged) > 0


def test_every_quote_stands_in_its_document(organization: Mapping[str, str], client: Carrel) -> None:
    """As the notebook says, and as the documents do; who may not read gets none; and the agent is gone."""
    found = found_by(
        CHAT,
        organization,
        stand="everything['stands there'].tolist()",
        quotes="[[str(source.id), source.quote] for each in replies.values() for source in each.sources]",
        quoted="quoted.to_dict()",
        error="error_code",
        log="log['action'].value_counts().to_dict()",
        agent="str(agent.agent_id)",
    )
    assert all(found["stand"])
    assert len(found["stand"]) == len(found["quotes"]) > 4
    for document, quote in found["quotes"]:
        assert any(quote in chunk.text for chunk in client.document_collections.get_document_chunks(document))
    pay_bands = {person: row["What are the pay bands?"] for person, row in found["quoted"].items()}
    assert pay_bands["Adaeze"] > pay_bands["Tove"] == pay_bands["Jonas"] == 0
    assert found["error"] == "conversation_not_found"
    assert found["log"] == {"agent.message": 11, "agent.feedback": 2}
    assert found["agent"] not in {str(agent.agent_id) for agent in client.admin.agents.list()}


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_kept_notebook_was_run_from_top_to_bottom(path: Path) -> None:
    """Once, in this order, without a mistake or a warning; with tables, and pictures that say what their axes are."""
    cells = code_of(kept(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"execute_result", "display_data", "stream"}
    assert {output.name for output in outputs if output.output_type == "stream"} <= {"stdout"}
    shown = [kind for output in outputs for kind in output.get("data", {})]
    assert shown.count("text/html") >= 3
    assert shown.count("image/png") >= 1
    assert path.stat().st_size < 1_000_000


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_kept_notebook_says_nothing_of_where_it_was_run(path: Path) -> None:
    """No path, address or secret of the machine, in what it shows or says of itself."""
    notebook = kept(path)
    texts = [
        text
        for cell in code_of(notebook)
        for output in cell.outputs
        for text in [
            output.get("text", ""),
            *(text for kind, text in output.get("data", {}).items() if kind != "image/png"),
        ]
    ]
    # Tags are no paths.
    said = "\n".join(texts).replace("</", "<")
    for pattern in (SECRETS, ABSOLUTE, OWN_ADDRESS):
        assert not pattern.findall(said), pattern
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_notebook_needs_only_what_analysts_have(path: Path) -> None:
    """The SDK, what the flows do, and the libraries of the extra; never the service, and nothing of the tests."""
    imported = {
        name.partition(".")[0]
        for cell in code_of(kept(path))
        for node in ast.walk(ast.parse(cell.source))
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
