"""What `serve` takes from a file of deployments, and what it refuses to start with."""

import pytest

from flows import serving
from flows.deployments import read_deployments, read_served
from flows.errors import DeploymentsError
from flows.settings import SHIPPED
from tests.harness.cases import cases

UPLOAD = "flows.bulk_upload.bulk_upload"


def test_a_file_of_ones_own_has_what_people_start(tmp_path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"deployments:\n  - {{name: nightly, entrypoint: {UPLOAD}, parameters: {{source: /srv}}}}\n")
    own = {(entry.flow.name, entry.name) for entry in read_deployments(SHIPPED)}
    assert {(entry.flow.name, entry.name) for entry in read_served(path)} == {*own, ("bulk-upload", "nightly")}
    path.write_text(f"deployments:\n  - {{name: carrel, entrypoint: {UPLOAD}, description: Ours}}\n")
    served = read_served(path)
    assert {(entry.flow.name, entry.name) for entry in served} == own
    assert [entry.description for entry in served if entry.flow.name == "bulk-upload"] == ["Ours"]


# People start `carrel`, and give the parameters; another entry runs by itself.
@pytest.mark.parametrize(("text", "said"), cases("mistakes_in_files_of_deployments"))
def test_a_mistake_is_said(tmp_path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    (tmp_path / "breaks_when_imported.py").write_text("raise RuntimeError('nothing here')\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(DeploymentsError) as raised:
        read_deployments(path)
    assert said in str(raised.value)


def test_a_key_without_a_value_is_empty(tmp_path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"deployments:\n  - name: carrel\n    entrypoint: {UPLOAD}\n    parameters:\n    schedules:\n")
    [entry] = read_deployments(path)
    assert (entry.parameters, entry.schedules) == ({}, [])


def test_a_file_of_the_form_before_is_not_passed_over(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its deployments would be removed from the server without a word."""
    monkeypatch.setattr(serving, "__file__", str(tmp_path / "serving.py"))
    serving._refuse_former_file()
    (tmp_path / "deployments.yaml").write_text("deployments:\n")
    with pytest.raises(DeploymentsError, match=r"prefect\.yaml"):
        serving._refuse_former_file()
