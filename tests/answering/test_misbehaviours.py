"""What a reader sees of each misbehaviour in tests/data/model-misbehaviours.toml, over real HTTP."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.domains.agents.answering import ModelFailure
from tests.answering.asking import Library, a_library
from tests.harness.model_server import Answer, Exchange, ModelServer, calls

SET = tomllib.loads((Path(__file__).parents[1] / "data" / "model-misbehaviours.toml").read_text())
EVENT = '{"id": "c1", "choices": [{"index": 0, "delta": {"content": "PIECE"}}]}'


@pytest.fixture(scope="module")
def asked(service_harness, endpoint: ModelServer) -> Iterator[Library]:
    with service_harness.running(**endpoint.settings, model_seconds=30.0) as service:
        library = a_library(service)
        for name, text in SET["documents"].items():
            library.put(name, text)
        yield library


def as_scripted(case: dict) -> Answer:
    def answer(exchange: Exchange) -> None:
        if "body" in case:
            exchange.refuse(case["status"], case["body"], content_type=case["type"])
            return
        exchange.begin()
        if "raw" in case:
            exchange.write(bytes.fromhex(case["raw"]))
        if "times" in case:
            for number in range(case["times"]):
                exchange.delta({"content": case["says"].replace("{n}", str(number))})
        else:
            exchange.text(case.get("says", ""))
        for piece in case.get("pieces", []):
            written = piece.replace('"', r"\"") if case.get("escaped") else json.dumps(piece)[1:-1]
            exchange.event(piece if case.get("whole") else EVENT.replace("PIECE", written))
        ends = "nothing" if "raw" in case else case.get("ends", "stop")
        if ends in {"stop", "length"}:
            exchange.delta({}, finish=ends)
        (exchange.cut if ends == "cut" else exchange.end)()

    return answer


@pytest.mark.parametrize("case", SET["case"], ids=lambda case: case["name"])
def test_a_misbehaviour_is_told_and_never_shown(asked: Library, model: ModelServer, case: dict) -> None:
    """Neither at the end nor while it is written; with a plain warning, or an error that says what to do."""
    search = [calls("search_passages", query=SET["question"])] if case.get("searches", True) else []
    model.in_turn(*search, as_scripted(case))
    if "failure" in case:
        with pytest.raises(ModelFailure) as failure:
            asked.ask(SET["question"])
        assert (failure.value.code, "web page" in failure.value.message) == (case["failure"], "body" in case)
        seen = [failure.value.message]
    else:
        reply = asked.ask(SET["question"])
        seen, told = [reply.text], "\n".join(reply.warnings)
        assert case.get("shown", reply.text) == reply.text
        assert [text for text in case.get("has", []) if text not in reply.text] == []
        assert len(reply.citations) == case.get("cited", len(reply.citations))
        assert [kind for kind in case.get("warned", []) if SET["words"][kind] not in told] == [], told
        assert not told or case.get("warned") != []
        marked = [word for citation in reply.citations for word in citation.unsupported]
        assert case.get("marked", marked) == marked
    seen += [text for text, _ in asked.told]
    assert [text for text in case.get("lacks", []) if any(text in each for each in seen)] == []
