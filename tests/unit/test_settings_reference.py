"""docs/settings.md and the settings are one."""

from scripts.settings_reference import PAGE, ROOMS, reference


def test_the_page_is_what_the_code_says() -> None:
    """Every setting of every room is on the page with its default and its description; `make docs` brings it there."""
    assert PAGE.read_text() == reference()


def test_every_setting_says_what_it_is() -> None:
    """No setting is without a description."""
    silent = [
        f"{room.__name__}.{name}"
        for room in ROOMS.values()
        for name, field in room.model_fields.items()
        if not field.description
    ]
    assert silent == []
