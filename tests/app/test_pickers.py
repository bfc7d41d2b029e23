"""Pickers, filters and dialogs on the real service."""

from app.auth.sessions import digest_of
from app.lookup import MOST, find_principals, principal_at
from tests.app.conftest import House
from tests.app.pages import Page


def choosing() -> None:
    import streamlit as st  # noqa: PLC0415 - a script of Streamlit's

    from app.lookup import Principal  # noqa: PLC0415
    from app.ui.pickers import pick_principals  # noqa: PLC0415

    ada = Principal("user", "ada@example.test", "Ada", "ada@example.test")
    if st.checkbox("Choose", value=True, key="choose"):
        most = 1 if st.checkbox("One", key="one") else None
        st.text(" ".join(one.id for one in pick_principals("picked", label="Find", chosen=[ada], most=most)))


def page_of(house: House) -> Page:
    """The form for an admin, with three people of equal names."""
    house.client.admin.users.upsert([{"email": f"pick{n}@example.test", "name": f"Pick {n}"} for n in range(3)])
    form = Page.from_function(choosing)
    form.session_state["signed_in.owner"] = digest_of(house.sign_in())
    return form.run()


def chosen(page: Page) -> str:
    return page.text[0].value


def add(page: Page, typed: str, number: int) -> None:
    page.text_input(key="picked.typed").set_value(typed).run()
    page.selectbox(key="picked.match").set_value(f"user:pick{number}@example.test").run()


def test_several_are_added_and_taken_out_again(house: House) -> None:
    page = page_of(house)
    assert chosen(page) == "ada@example.test"
    add(page, "pick", 1)
    assert page.text_input(key="picked.typed").value == ""
    add(page, "pick", 2)
    assert chosen(page) == "ada@example.test pick1@example.test pick2@example.test"
    page.text_input(key="picked.typed").set_value("pick").run()
    assert chosen(page).endswith("pick0@example.test")  # the only one who is left
    page.button(key="picked.add").click().run()  # and more
    assert page.text_input(key="picked.typed").value == ""
    assert chosen(page).endswith("pick0@example.test")
    page.multiselect(key="picked.kept").set_value(["user:pick2@example.test"]).run()
    assert chosen(page) == "pick2@example.test"


def test_the_only_match_is_chosen_while_it_is_shown(house: House) -> None:
    page = page_of(house)
    page.text_input(key="picked.typed").set_value("k 1").run()
    assert chosen(page) == "ada@example.test pick1@example.test"
    page.text_input(key="picked.typed").set_value("pick 2").run()
    assert chosen(page) == "ada@example.test pick2@example.test"
    page.multiselect(key="picked.kept").set_value(["user:ada@example.test"]).run()
    assert chosen(page) == "ada@example.test"
    assert page.text_input(key="picked.typed").value == ""
    page.text_input(key="picked.typed").set_value(" 2").run()
    assert chosen(page) == "ada@example.test"  # too few letters: it may be a coincidence
    page.press_key("picked.add")
    assert chosen(page) == "ada@example.test pick2@example.test"


def test_where_there_is_one_the_latest_is_it_and_coming_back_chooses_nobody(house: House) -> None:
    """A form hidden for a run starts empty."""
    page = page_of(house)
    page.checkbox(key="one").check().run()
    for number in (1, 2):
        add(page, "pick", number)
        assert chosen(page) == f"pick{number}@example.test"
    page.checkbox(key="choose").uncheck().run()
    assert not page.text
    page.checkbox(key="choose").check().run()
    assert chosen(page) == "ada@example.test"


def leaving() -> None:
    import streamlit as st  # noqa: PLC0415

    from app.ui import filters  # noqa: PLC0415

    st.session_state["filter.q"] = "abc"
    filters._tell_address("q", "")
    st.text(st.query_params["q"])
    st.query_params.from_dict({"person": "1"})
    filters._tell_address("q", "")
    st.text(str(st.query_params.to_dict()))


def test_a_filter_says_a_value_to_the_address_once() -> None:
    assert Page.from_function(leaving).run().texts == ["abc", "{'person': '1'}"]


def test_who_an_address_names_is_found_among_many_alike(house) -> None:
    address = "na@example.test"
    house.add_people(address, *(f"{number:02}an{address}" for number in range(MOST + 10)))
    found = principal_at(house.client, f"user:{address}")
    assert found is not None
    assert (found.id, found.name) == (address, "Na")
    assert principal_at(house.client, f"user:x{address}") is None
    assert len(find_principals(house.client, address)) == MOST + 1


def run(script: object) -> Page:
    return Page.from_function(script).run()


def broken() -> None:
    import streamlit as st  # noqa: PLC0415

    from app.ui import dialogs  # noqa: PLC0415

    def fail() -> None:
        raise ZeroDivisionError

    dialogs.open_dialog("mint")
    dialogs._submit("mint", fail)
    dialogs.offer_submit("mint", "Mint", action=fail)
    st.text(str(dialogs.is_open("mint")))
    dialogs._do(fail)
    dialogs._show_problem(fail)


def test_an_error_that_nobody_foresaw_is_shown_in_the_dialog(caplog) -> None:
    """On the page behind the dialog the error would be invisible. The traceback is logged."""
    page = run(broken)
    shown = [block.proto.body for block in page.get("html")]
    assert [text for text in shown if "error in the workbench" in text] == shown
    assert len(shown) == 2
    assert page.text[0].value == "True"
    assert "ZeroDivisionError" in caplog.text


def mistaken() -> None:
    import streamlit as st  # noqa: PLC0415

    from app.ui import dialogs  # noqa: PLC0415

    def refuse() -> None:
        raise dialogs.NotYetError("Give it a name.")

    dialogs.open_dialog("mint")
    dialogs._submit("mint", refuse)
    st.text(str(dialogs.is_open("mint")))
    dialogs.offer_submit("mint", "Mint", action=lambda: None)
    submitted, confirmed = list[int](), list[int]()
    for _ in range(2):
        dialogs._submit("mint", lambda: submitted.append(1))
        dialogs._do(lambda: confirmed.append(1))
    st.text(str(dialogs.is_open("mint")))
    st.text(f"{len(submitted)} {len(confirmed)}")


def test_a_mistake_leaves_the_dialog_open_and_two_clicks_do_it_once() -> None:
    page = run(mistaken)
    assert "Give it a name." in page.get("html")[0].proto.body
    assert page.texts == ["True", "False", "1 1"]


def leave_dialog() -> None:
    import streamlit as st  # noqa: PLC0415

    from app.ui import dialogs  # noqa: PLC0415

    dialogs.close_on_page_change("api_keys")
    dialogs.hold_secret(dialogs.Secret("A key", "svc_key_x", hint=""))
    dialogs.close_on_page_change("api_keys")
    st.text("svc_key_x" in str(vars(st.session_state["dialog.secret"])))
    dialogs.close_on_page_change("search")
    st.text("dialog.secret" in st.session_state)


def come_back() -> None:
    import streamlit as st  # noqa: PLC0415

    from app.ui import dialogs  # noqa: PLC0415

    dialogs.close_on_page_change("documents")
    if not st.query_params.get("other"):
        st.button("Open", on_click=dialogs.open_dialog, args=("box",))
        dialogs.dialog("Box", "box")(lambda: st.text("The box."))()
    dialogs.close_unshown()


def test_a_dialog_stays_open_until_another_view_of_its_page_is_drawn() -> None:
    page = run(come_back)
    page.button[0].click().run()
    assert page.run().texts == ["The box."]
    for other in ("yes", ""):
        page.query_params["other"] = other
        page.run()
    assert page.texts == []


def test_a_secret_goes_with_its_page() -> None:
    assert run(leave_dialog).texts == ["True", "False"]
