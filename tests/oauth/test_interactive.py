"""Signing in from a notebook: the real service, a person's browser, and tokens in a private folder."""

import contextlib
import os
import socket
import stat
import threading
import webbrowser
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from filelock import FileLock

from carrel import APIConnectionError, Carrel, ConfigurationError, SignInRequiredError, sign_in, sign_out
from carrel.oauth import LOOPBACK_REDIRECT_URIS, AccessDeniedError, CallbackError, InvalidClientError, interactive
from carrel.oauth.interactive import HOST, PORTS
from tests.harness.services import RunningService
from tests.oauth.flow import Person, an_app, works
from tests.oauth.sdk import callback
from tests.service.directory import done


class Browser:
    """The person's browser as opened by the SDK; `opened` are the addresses."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.opened: list[str] = []
        self.pages: list[httpx.Response] = []
        self.press = "allow"
        self.before: Callable[[str], None] = lambda _: None

    def open(self, url: str, *_: object) -> bool:
        """Go to the address in a thread: browsers don't block the caller."""
        self.opened.append(url)
        threading.Thread(target=self._visit, args=[url]).start()
        return True

    def _visit(self, url: str) -> None:
        address = callback(self.person, url, self.press)
        self.before(address)
        self.pages.append(httpx.get(address, timeout=30))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("CARREL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "carrel"


@pytest.fixture
def browser(service: RunningService, ada: Person, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Browser:
    monkeypatch.setenv("CARREL_BASE_URL", service.base_url)
    know_an_application(service, monkeypatch)
    assert not folder.exists()
    browser = Browser(ada)
    monkeypatch.setattr(webbrowser, "open", browser.open)
    return browser


def know_an_application(service: RunningService, monkeypatch: pytest.MonkeyPatch) -> None:
    app = an_app(service, *LOOPBACK_REDIRECT_URIS)
    monkeypatch.setenv("CARREL_NOTEBOOK_CLIENT_ID", app.client_id)
    monkeypatch.setenv("CARREL_NOTEBOOK_CLIENT_SECRET", app.client_secret)


@contextlib.contextmanager
def taken(ports: Any) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for port in ports:
            stack.enter_context(socket.create_server((HOST, port)))
        yield


def tokens_in(folder: Path) -> str:
    return "".join(path.read_text() for path in (folder / "tokens").glob("*.json"))


def access_tokens_in(folder: Path) -> list[str]:
    return [each.partition('"')[0] for each in tokens_in(folder).split('"access_token":"')[1:]]


def test_a_person_signs_in_once(browser: Browser, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sign_in() as client:
        assert client.me().email == "ada@example.test"
    for name in ("CARREL_NOTEBOOK_CLIENT_ID", "CARREL_NOTEBOOK_CLIENT_SECRET"):
        os.environ.pop(name)
    with sign_in() as again:
        assert again.me().email == "ada@example.test"
        assert len(browser.opened) == 1
        shown = repr(again) + "".join(capsys.readouterr())
    assert "svc_" in tokens_in(folder)
    assert "svc_" not in shown
    assert "code" not in shown
    assert [page.status_code for page in browser.pages] == [200]
    assert "svc_" not in browser.pages[0].text
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "tokens")} == {0o700}


def test_signing_out_revokes_the_tokens_of_every_application(browser, service, folder, monkeypatch):
    client = sign_in()
    know_an_application(service, monkeypatch)
    sign_in().close()
    tokens = access_tokens_in(folder)
    assert [works(service, token) for token in tokens] == [True, True]
    sign_out()
    assert [works(service, token) for token in tokens] == [False, False]
    assert tokens_in(folder) == ""
    with client, pytest.raises(SignInRequiredError):
        client.me()
    sign_out()
    sign_in().close()
    assert len(browser.opened) == 3


def test_saying_no_is_an_error_and_closes_the_client(browser, folder, monkeypatch):
    closed: list[bool] = []

    class Watched(Carrel):
        def close(self) -> None:
            closed.append(True)
            super().close()

    monkeypatch.setattr(interactive, "Carrel", Watched)
    browser.press = "deny"
    with pytest.raises(AccessDeniedError):
        sign_in()
    assert closed == [True]
    assert tokens_in(folder) == ""


def test_tokens_stay_when_they_cant_be_revoked(browser, service, folder, monkeypatch):
    sign_in().close()
    monkeypatch.setattr(interactive, "_connect", offline(interactive._connect))
    with pytest.raises(APIConnectionError):
        sign_out()
    assert [works(service, token) for token in access_tokens_in(folder)] == [True]
    assert len(browser.opened) == 1


def offline(connect: Callable[..., Any]) -> Callable[..., Any]:

    def elsewhere(application: Any, _: str, *others: Any) -> Any:
        with socket.create_server((HOST, 0)) as free:
            port = free.getsockname()[1]
        return connect(application, f"http://{HOST}:{port}", *others)

    return elsewhere


def test_who_signed_out_elsewhere_is_asked_again(browser: Browser, service: RunningService, folder: Path) -> None:
    sign_in().close()
    [application] = interactive._read_applications(service.base_url)
    with interactive._connect(application, service.base_url) as oauth:
        oauth.revoke(tokens_in(folder).split('"refresh_token":"')[1].partition('"')[0])
    with sign_in() as client:
        assert client.me().email == "ada@example.test"
    assert len(browser.opened) == 2


def test_a_strangers_callback_is_not_taken(browser: Browser) -> None:
    answers: list[int] = []

    def disturb(address: str) -> None:
        base, _, query = address.partition("?")
        state = "state=" + address.partition("state=")[2].partition("&")[0]
        wrong = [f"{base}?{each}" for each in ("code=stolen&state=guessed", "code=stolen", state[:-1])]
        answers.extend(httpx.get(one).status_code for one in (*wrong, f"{base[:-1]}?{query}"))
        answers.append(httpx.post(address).status_code)

    browser.before = disturb
    with sign_in() as client:
        assert client.me().email == "ada@example.test"
    assert answers == [404, 404, 404, 404, 501]


def test_it_listens_to_this_machine_alone_and_only_meanwhile(browser: Browser) -> None:
    bound: list[str] = []

    def look(address: str) -> None:
        port = int(address.split(":")[2].partition("/")[0])
        lines = Path("/proc/net/tcp").read_text().splitlines()
        bound.extend(line.split()[1] for line in lines if f":{port:04X} 00000000:0000 0A" in line)

    browser.before = look
    with taken(PORTS[:3]):
        sign_in().close()
    assert bound == [f"0100007F:{PORTS[3]:04X}"]
    with taken(PORTS):
        pass


@pytest.mark.parametrize("why", ["no browser", "asked for", "no port"])
def test_a_remote_notebook_takes_the_address(browser, monkeypatch, capsys, why):
    def ask(_: str) -> str:
        url = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("http"))
        return f"  {callback(browser.person, url)}\n"

    monkeypatch.setattr("getpass.getpass", ask)
    if why == "no browser":
        monkeypatch.setattr(webbrowser, "open", lambda *_: False)
    with taken(PORTS if why == "no port" else []), sign_in(open_browser=why != "asked for") as client:
        assert client.me().email == "ada@example.test"
    assert browser.opened == []
    assert "code" not in capsys.readouterr().out


def test_a_wrong_address_is_refused(browser: Browser, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getpass", lambda _: f"{LOOPBACK_REDIRECT_URIS[0]}?code=x&state=y")
    with pytest.raises(CallbackError):
        sign_in(open_browser=False)
    assert tokens_in(folder) == ""
    assert browser.opened == []


def test_nobody_comes(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda *_: True)
    with pytest.raises(SignInRequiredError, match="open_browser=False"):
        sign_in(timeout=0.2)
    assert browser.opened == []


def test_who_waits_for_another_notebook_is_told(browser: Browser, folder: Path) -> None:
    folder.mkdir(parents=True)
    with FileLock(folder / "sign-in.lock"), pytest.raises(SignInRequiredError, match="Another notebook"):
        sign_in(timeout=0.2)
    assert browser.opened == []


def test_an_admins_key_registers_the_application_once(service, browser, monkeypatch):
    for name in ("CARREL_NOTEBOOK_CLIENT_ID", "CARREL_NOTEBOOK_CLIENT_SECRET"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("CARREL_API_KEY", service.api_key)

    def registered() -> list[str]:
        clients = done(service.call("admin/oauthClients/list"))["oauthClients"]
        return [client["clientId"] for client in clients if client["name"] == interactive.NAME]

    for _ in range(2):
        with sign_in() as client:
            assert client.me().email == "ada@example.test"
    (first,) = registered()
    done(service.call("admin/oauthClients/delete", {"clientId": first}))
    with sign_in() as client:
        assert client.me().email == "ada@example.test"
    assert len(registered()) == 1
    assert registered() != [first]
    assert len(browser.opened) == 2
    monkeypatch.setenv("CARREL_API_KEY", "svc_key_that_was_revoked")
    with sign_in() as client:
        assert client.me().email == "ada@example.test"


def test_without_an_application_it_says_what_an_admin_does(service, folder, monkeypatch):
    with pytest.raises(ConfigurationError, match="CARREL_NOTEBOOK_CLIENT_ID"):
        sign_in(service.base_url)
    monkeypatch.setenv("CARREL_API_KEY", service.new_user("bob@example.test"))
    for key in (os.environ["CARREL_API_KEY"], "svc_key_that_was_revoked"):
        monkeypatch.setenv("CARREL_API_KEY", key)
        with pytest.raises(ConfigurationError, match="LOOPBACK_REDIRECT_URIS"):
            sign_in(service.base_url)
    sign_out(service.base_url)
    assert not list(folder.glob("*.json"))


def test_a_wrong_secret_is_not_kept(browser: Browser, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARREL_NOTEBOOK_CLIENT_SECRET", "svc_cs_wrong")
    with pytest.raises(InvalidClientError):
        sign_in()
    assert not list(folder.glob("*.json"))
    assert len(browser.opened) == 1


def test_two_notebooks_at_once_ask_once(browser: Browser) -> None:
    with ThreadPoolExecutor(2) as threads:
        clients: list[Carrel] = [work.result() for work in [threads.submit(sign_in), threads.submit(sign_in)]]
    assert {client.me().email for client in clients} == {"ada@example.test"}
    assert len(browser.opened) == 1
    for client in clients:
        client.close()
