"""How well conditions are drawn from queries: by rules, and with the language model that the service is set up with.

60 questions with the conditions that they state (tests/data/filtering-questions.json). Goal: nine in ten of the applied
conditions are right. Run: `CARREL_MODEL_URL=… CARREL_MODEL_NAMES=… python -m bench.query_model`; `--seconds` is how
long each query may take, `--limit` asks only so many questions. Without an endpoint, the rules alone are measured.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from pydantic_ai.models import Model

from bench.report import report
from carrel.wire.search import DrawnFilter
from service.domains.search.understanding import by_model
from service.domains.search.understanding.by_model import NotReadError, StatedCondition, read_by_model
from service.domains.search.understanding.checking import check_conditions, keys_to_find
from service.domains.search.understanding.drawing import Values
from service.domains.search.understanding.folding import fold
from service.platform.settings import Settings
from service.text.language_models import LanguageModels

QUESTIONS = Path(__file__).parents[1] / "tests" / "data" / "filtering-questions.json"


@dataclass
class Measured:
    """What a way of reading made of the questions."""

    count: Counter[str] = field(default_factory=Counter[str])
    seconds: list[float] = field(default_factory=list[float])
    wrong: list[str] = field(default_factory=list[str])

    def add(self, question: str, expected: Sequence[Sequence[str]], applied: Sequence[DrawnFilter]) -> None:
        """Count a question's conditions."""
        got = [[each.field, each.operator.value, each.value] for each in applied]
        right = sum(each in expected for each in got)
        self.count.update(questions=1, expected=len(expected), applied=len(got), right=right)
        if right < len(got):
            self.wrong.append(f"{question}: {[' '.join(each) for each in got if each not in expected]}")

    def row(self, name: str) -> dict[str, object]:
        """Build a row of the report."""
        middle = sorted(self.seconds)[len(self.seconds) // 2] if self.seconds else 0.0
        return {
            "read by": name,
            "questions": self.count["questions"],
            "not read": self.count["not read"],
            "applied": self.count["applied"],
            "applied and right": round(self.count["right"] / max(self.count["applied"], 1), 3),
            "stated and found": round(self.count["right"] / max(self.count["expected"], 1), 3),
            "median seconds": round(middle, 1),
        }


def values_in(about: dict[str, Any], question: str) -> Values:
    """Return the values of a corpus that a question may name."""
    keys = {*keys_to_find(question, about["fields"])}
    found: dict[str, list[tuple[str, str]]] = {}
    for name, values in about["values"].items():
        for value in values:
            if fold(value) in keys:
                found.setdefault(fold(value), []).append((name, value))
    return found


async def measure(model: Model[Any] | None, limit: int | None) -> Measured:
    """Read every question: by rules, or with a model."""
    asked = json.loads(QUESTIONS.read_text())
    today = date.fromisoformat(asked["today"])
    measured = Measured()
    for each in asked["questions"][:limit]:
        question, about = each["question"], asked["corpora"][each["corpus"]]
        values = values_in(about, question)
        stated: list[StatedCondition] = []
        began = time.perf_counter()
        if model is not None:
            try:
                reading = await read_by_model(model, question, fields=about["fields"], values=values, today=today)
                stated = reading.conditions
            except NotReadError:
                measured.count["not read"] += 1
            measured.seconds.append(time.perf_counter() - began)
        applied = check_conditions(stated, question, fields=about["fields"], values=values, today=today)
        measured.add(question, each["conditions"], applied)
    return measured


async def main(limit: int | None) -> None:
    """Measure the rules, and the configured model with them; report both."""
    models = LanguageModels(Settings())
    ways = {"rules": await measure(None, limit)}
    if models.default is None:
        print("CARREL_MODEL_URL and CARREL_MODEL_NAMES name no language model. Left out.")
    else:
        ways[f"{models.default.model_name} and rules"] = await measure(models.default, limit)
    await models.close()
    for name, measured in ways.items():
        for line in measured.wrong:
            print(f"{name}: not stated by {line}")
    report("query_model", [measured.row(name) for name, measured in ways.items()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=by_model.SECONDS, help="how long a query may take")
    parser.add_argument("--limit", type=int, help="ask only so many questions")
    arguments = parser.parse_args()
    by_model.SECONDS = arguments.seconds
    asyncio.run(main(arguments.limit))
