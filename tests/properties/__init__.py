"""A state machine and a plain model check each other's answers about rights."""

import pytest

for module in ("comparisons", "operations", "machine", "world"):
    pytest.register_assert_rewrite(f"tests.properties.{module}")
