"""Pages, and the resources of the SDK, are what the code and the committed results say."""

import pytest

from bench.cost import Prices, estimate, to_markdown
from carrel.wire.schemas import descriptions_of
from scripts import endpoints_reference, settings_reference, write_resources
from scripts.settings_reference import ROOMS
from scripts.size import GENERATED
from tests.harness.requirements import REQUIREMENTS, V0_REQUIREMENTS, V1_REQUIREMENTS


@pytest.mark.parametrize("module", [endpoints_reference, settings_reference])
def test_a_page_is_what_the_code_says(module) -> None:
    """`make docs` brings it there."""
    assert module.PAGE.read_text() == module.reference()


def test_resources_are_what_the_operations_say() -> None:
    """`make docs` brings them there, and no other file says that it is generated."""
    generated = write_resources.generate()
    assert {path: path.read_text() for path in generated} == generated
    marked = {path for path in write_resources.FOLDER.rglob("*.py") if path.read_bytes().startswith(GENERATED)}
    assert marked == generated.keys()


def test_every_operation_is_on_its_page() -> None:
    page = endpoints_reference.PAGE.read_text()
    assert all(f"| `{name}` |" in page for name in (*REQUIREMENTS, *V0_REQUIREMENTS, *V1_REQUIREMENTS))


def test_every_setting_says_what_it_is() -> None:
    assert [room.model_fields.keys() - descriptions_of(room).keys() for room in ROOMS.values()] == [set()] * len(ROOMS)


def test_the_page_about_scaling_has_the_costs_that_follow_from_the_last_results() -> None:
    rows = estimate(Prices(core=15, memory=3, disk=0.1), searches=5)
    assert "\n".join(to_markdown(rows)) in (endpoints_reference.PAGE.parent / "scaling.md").read_text()
