"""`carrel providers`, against the real service."""

from tests.cli.conftest import Run, ran


def test_providers_are_added_changed_tested_and_deleted(run: Run) -> None:
    own = ("--issuer", "https://login.example.test", "--client-id", "carrel")
    assert "CARREL_PROVIDER_SECRET" in run("providers", "add", "Work", *own).err
    added = run("providers", "add", "Work", *own, "--secret", "s3cret-word", "--domain", "example.test")
    assert (added.code, "/api/oauth/upstream/callback" in added.out) == (0, True), added
    listed = run("providers", "list", "--json")
    assert "s3cret-word" not in listed.out + added.out
    [provider] = listed.json["signInProviders"]
    provider_id = provider["providerId"]
    changed = ran(run, "providers", "change", provider_id, "--trust-addresses", "--groups", "roles")
    assert (changed["trustAddresses"], changed["groupsClaim"]) == (True, "ROLES")
    tested = run("providers", "test", provider_id, "--json")
    assert (tested.code, tested.err) == (1, "")
    assert run("providers", "test", provider_id).out.splitlines() == tested.json["problems"]
    assert run("providers", "delete", provider_id).code == 2
    assert run("providers", "delete", provider_id, "--yes").code == 0
    assert run("providers", "list").err.startswith("People sign in with a password here")
