"""Answers of others that are kept."""

import asyncio
import time

import pytest

from service.platform.kept import Kept


class AwayError(Exception):
    """The other can't be asked."""


def test_an_answer_stays_until_there_is_another_one() -> None:
    """One who asks again and is cancelled takes nothing from the others; an error is in its place for a while."""

    async def use() -> None:
        kept, begun = Kept(), time.monotonic()

        async def get(answer: str | None, *, since: float) -> str:
            async def ask() -> str:
                if answer is None:
                    raise AwayError
                await asyncio.sleep(60 if answer == "slow" else 0)
                return answer

            return await kept.get("name", ask, since=since, errors=AwayError)

        assert await get("first", since=begun) == "first"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(get("slow", since=time.monotonic()), 0.01)
        assert await get("second", since=begun) == "first"
        with pytest.raises(AwayError):
            await get(None, since=time.monotonic())
        with pytest.raises(AwayError):
            await get("second", since=begun)

    asyncio.run(use())
