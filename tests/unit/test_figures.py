"""What a soak takes for growth."""

import random

import pytest

from tests.harness.figures import TOLERANCE, Figures, find_growth


def samples(**grown: float) -> list[Figures]:
    """An hour of noisy samples, one each 30 s, in which some figures grow by so much in all."""
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
