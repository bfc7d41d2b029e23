"""A state machine and a plain model that say, for each other, who may see and do what."""

import pytest

for module in ("comparisons", "operations", "machine", "world"):
    pytest.register_assert_rewrite(f"tests.properties.{module}")
