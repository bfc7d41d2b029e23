"""A state machine and a plain model that say, for each other, who may see and do what."""

import pytest

pytest.register_assert_rewrite("tests.properties.comparisons", "tests.properties.machine", "tests.properties.world")
