"""What the built-in model replies to a new employee's questions about a handbook, written down to be judged by hand.

The 40 questions in tests/data/handbook-questions.json were written without reading the handbook, from the names of its
files; such a handbook plausibly answers 35 of them. The folder is loaded into a service of its own, an agent with the
built-in model is deployed on it and asked each question, and the replies are written to a Markdown file with what they
cite. Run: `python -m bench.handbook FOLDER [--out handbook-replies.md]`. Without the folder, nothing is asked.
"""

import argparse
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

from bench.running import run_client
from carrel import Carrel
from carrel.wire.agents import BUILT_IN_MODEL

QUESTIONS = Path(__file__).parents[1] / "tests" / "data" / "handbook-questions.json"
READ = {".md", ".docx", ".pdf", ".html", ".txt"}
AT_ONCE = 4


def load(client: Carrel, folder: Path) -> tuple[str, dict[UUID, str]]:
    """Upload the files of a folder; return the id of an agent that answers from them, and their paths by their ids."""
    collection = client.document_collections.create_document_collection("Handbook").document_collection_id
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in READ and path.is_file()]

    def upload(path: Path) -> tuple[UUID, str]:
        name = path.relative_to(folder).as_posix()
        uploaded = client.catalog.upload_file(
            path,
            document_external_id=name,
            collection_id=collection,
            internal_public=True,
            await_vector_store_sync=True,
        )
        return uploaded.document_id, name

    with ThreadPoolExecutor(AT_ONCE) as threads:
        names = dict(threads.map(upload, paths))
    print(f"loaded {len(paths)} files", flush=True)
    agent = client.admin.agents.create(
        "Handbook", model=BUILT_IN_MODEL, collection_ids=[collection], api_access_enabled=True
    )
    client.admin.agents.deploy(agent.agent_id, organization_wide=True)
    return str(agent.agent_id), names


def ask(client: Carrel, agent_id: str, names: Mapping[UUID, str], question: Mapping[str, str]) -> str:
    """Ask a question in a conversation of its own; return it with the reply and its sources, in Markdown."""
    reply = client.agents.send_and_wait(agent_id, question["ask"])
    lines = [question["ask"], f"Kind: {question['kind']}. Judged:", _quoted(reply.text)]
    for place, source in enumerate(reply.sources, 1):
        lines += [f"[{place}] {source.name} ({names.get(source.id, 'a file within')})", _quoted(source.quote)]
    return "\n\n".join([*lines, *(f"Warning: {each}" for each in reply.warnings)])


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.splitlines())


def main() -> None:
    """Load, ask and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the handbook: a folder of documents")
    parser.add_argument("--out", type=Path, default=Path("handbook-replies.md"), help="where the replies are written")
    arguments = parser.parse_args()
    if not arguments.folder.is_dir():
        print(f"There is no handbook at {arguments.folder}. Nothing was asked.")
        return
    questions = json.loads(QUESTIONS.read_text())
    with run_client("handbook") as (client, _):
        agent_id, names = load(client, arguments.folder)
        replies = [f"## {number}. {ask(client, agent_id, names, each)}" for number, each in enumerate(questions, 1)]
    arguments.out.write_text("\n\n".join(["# Replies to be judged", *replies]) + "\n")
    print(f"wrote {len(replies)} replies to {arguments.out}")


if __name__ == "__main__":
    main()
