"""Measurements: rankings scored like trec_eval, growth in a soak test, and alternating comparisons."""

import doctest
import math
import random
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.compare import LOCK, checkout, compare
from carrel import InvalidArgumentError, evaluation
from carrel.evaluation import ndcg, recall, reciprocal_rank
from carrel.wire.evaluation_runs import EvaluationRun
from tests.harness.figures import TOLERANCE, Figures, find_growth

MEASURES = (ndcg, recall, reciprocal_rank)

documents = st.integers(0, 30)
rankings = st.lists(documents, max_size=40, unique=True)
judgements = st.dictionaries(documents, st.integers(1, 3), min_size=1, max_size=20)
cutoffs = st.integers(1, 40)


def test_a_ranking_that_was_worked_out_by_hand() -> None:
    found, relevant = ["a", "b", "c"], {"a": 3, "c": 2, "d": 1}
    won = 3 / math.log2(2) + 2 / math.log2(4)
    best = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert ndcg(found, relevant) == pytest.approx(won / best)
    assert ndcg(found, relevant, cutoff=1) == 1
    assert recall(found, relevant) == pytest.approx(2 / 3)
    assert reciprocal_rank(["b", "c", "a"], relevant) == 0.5


def test_the_modules_own_example() -> None:
    assert doctest.testmod(evaluation) == (0, 3)


def test_what_a_reply_says_is_found_word_for_word() -> None:
    said = "Leave\n\n> It\u2019s 27 days, **at most** 5 of\n> them carried over [12].\n> From [2] May."
    assert evaluation.find_unsaid(said, ["it's 27 DAYS", "at most 5 of them", "over.", "From May", "27"]) == []
    unsaid = ["7 days", "27 day", "5 of May", "12"]
    assert evaluation.find_unsaid(said, unsaid) == unsaid


def test_scores_that_are_too_low_are_named() -> None:
    run = EvaluationRun.model_construct(recall=0.5, answered=1.0, refused=None)
    assert evaluation.find_low_scores(run, {"recall": 0.5, "answered": 1}) == {}
    assert evaluation.find_low_scores(run, {"recall": 0.51, "refused": 0}) == {"recall": 0.5, "refused": None}
    with pytest.raises(InvalidArgumentError, match="speed is not a score; choose from answered"):
        evaluation.find_low_scores(run, {"speed": 1})


def test_what_is_found_twice_counts_once_and_nothing_is_worth_nothing() -> None:
    assert recall(["a", "a", "b"], {"a": 1, "b": 1}, cutoff=2) == 1
    assert ndcg(["a", "a", "b"], {"a": 1, "b": 1}) == 1
    assert reciprocal_rank(["b", "b", "a"], {"a": 1}) == 0.5
    assert [measure([], {"a": 1}) for measure in MEASURES] == [0, 0, 0]


@pytest.mark.parametrize(
    ("relevant", "cutoff", "said"),
    [
        *((relevant, 10, "Leave it out") for relevant in ({}, {"a": 0}, {"a": -1})),
        *(({"a": 1}, cutoff, "cutoff") for cutoff in (0, -1)),
    ],
)
def test_what_can_not_be_measured_is_refused(relevant, cutoff, said) -> None:
    for measure in MEASURES:
        with pytest.raises(ValueError, match=said):
            measure(["a"], relevant, cutoff=cutoff)


@given(rankings, judgements, cutoffs)
def test_a_measure_is_between_none_and_all(found: list[int], relevant: dict[int, int], cutoff: int) -> None:
    hit = bool({*found[:cutoff]} & relevant.keys())
    for measure in MEASURES:
        score = measure(found, relevant, cutoff=cutoff)
        assert 0 <= score <= 1 + 1e-12
        assert (score > 0) == hit


@given(judgements, st.lists(documents.map(lambda one: one + 100), max_size=5, unique=True), cutoffs)
def test_the_best_ranking_is_worth_all(relevant: dict[int, int], others: list[int], cutoff: int) -> None:
    best = sorted(relevant, key=lambda one: -relevant[one])
    assert ndcg([*best, *others], relevant, cutoff=cutoff) == pytest.approx(1)
    assert recall([*best, *others], relevant, cutoff=len(relevant)) == 1
    assert reciprocal_rank([*best, *others], relevant, cutoff=cutoff) == 1


@given(rankings, judgements, cutoffs, st.data())
def test_what_answers_better_is_worth_more_further_up(found, relevant, cutoff, data):
    if len(found) < 2:
        return
    first, second = sorted(data.draw(st.lists(st.sampled_from(range(len(found))), min_size=2, max_size=2, unique=True)))
    better = list(found)
    if relevant.get(found[second], 0) >= relevant.get(found[first], 0):
        better[first], better[second] = found[second], found[first]
    for measure in MEASURES:
        assert measure(better, relevant, cutoff=cutoff) >= measure(found, relevant, cutoff=cutoff) - 1e-12


@given(rankings, judgements, cutoffs, st.data())
def test_what_is_behind_the_cutoff_does_not_matter(found, relevant, cutoff, data):
    shuffled = [*found[:cutoff], *data.draw(st.permutations(found[cutoff:]))]
    for measure in MEASURES:
        assert measure(shuffled, relevant, cutoff=cutoff) == measure(found, relevant, cutoff=cutoff)


def samples(**grown: float) -> list[Figures]:
    """Return an hour of noisy samples, every 30 s, in which `grown` figures grow by the given total."""
    dice = random.Random(1)  # noqa: S311 - no secret
    return [
        Figures(
            seconds=number * 30.0,
            requests=number * 600,
            memory=700 + dice.uniform(-40, 40) + grown.get("memory", 0) * number / 120,
            resident=2000,
            **{
                name: int(usual + dice.randint(-5, 5) + grown.get(name, 0) * number / 120)
                for name, usual in (("descriptors", 90), ("connections", 12), ("threads", 60), ("tasks", 40))
            },
            temporary=int(dice.randint(0, 3) + grown.get("temporary", 0) * number / 120),
        )
        for number in range(121)
    ]


def test_what_comes_and_goes_is_no_growth_and_too_little_says_nothing() -> None:
    steady = samples()
    assert find_growth(steady) == []
    assert find_growth(samples(memory=-300)) == []
    assert find_growth([*steady[:100], *samples(memory=20_000)[100:101], *steady[101:]]) == []
    assert find_growth([*samples(memory=-100_000)[:20], *steady[20:]]) == []
    with pytest.raises(AssertionError, match="too few"):
        find_growth(steady[:5])


@pytest.mark.parametrize("name", TOLERANCE)
def test_each_figure_that_grows_is_named(name: str) -> None:
    least, part = TOLERANCE[name]
    found = find_growth(samples(**{name: 3 * max(least, part * 700 if name == "memory" else 0)}))
    assert [each.split()[0] for each in found] == [name]


def test_both_are_measured_in_turns_and_each_value_gets_medians() -> None:
    asked: list[str] = []
    seconds = {"old": iter([9.0, 1.0, 2.0, 4.0]), "new": iter([9.0, 1.0, 1.0, 1.0])}

    def measure(side: Any) -> dict[str, float]:
        asked.append(side)
        return {"seconds": next(seconds[side])}

    side: Any = "old", "new"
    assert compare(measure, *side, turns=3) == [{"what": "seconds", "old": 2.0, "new": 1.0, "new/old": 0.5}]
    assert asked == ["old", "new"] * 4


def test_a_revision_is_checked_out_beside_this_one_and_its_other_packages_are_named(tmp_path, capsys) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.com", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet")
    for lock, text in (("gone==1 \\\n  --hash", "1"), ("kept==1 \\", "2"), ("kept==1 \\", "3")):
        (tmp_path / LOCK).write_text(lock)
        (tmp_path / "code.py").write_text(text)
        git("add", ".")
        git("commit", "--quiet", "--message", text)
    with checkout("HEAD~1", repository=tmp_path) as code:
        assert (code / "code.py").read_text() == "2"
    assert capsys.readouterr().err == ""
    with checkout("HEAD~2", repository=tmp_path):
        assert "HEAD~2 pins gone==1:" in capsys.readouterr().err
    assert len(git("worktree", "list").splitlines()) == 1
