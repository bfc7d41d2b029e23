"""`carrel providers`: the OpenID Connect providers for signing in."""

from typing import Annotated
from uuid import UUID

import typer

from carrel.wire.sign_in_providers import GroupsClaim, SignInProvider
from cli.choosing import AsJson, Yes, as_id, confirm
from cli.exit_codes import ExitCode
from cli.listing import Columns, say_done, show_list, to_json
from cli.outcome import connect, usage

app = typer.Typer(no_args_is_help=True)

SECRET_VARIABLE = "CARREL_PROVIDER_SECRET"  # noqa: S105 - the name of a variable
_Provider = Annotated[UUID, typer.Argument(metavar="PROVIDER", parser=as_id, help="Id from `carrel providers list`.")]
_Secret = Annotated[
    str | None,
    typer.Option("--secret", envvar=SECRET_VARIABLE, metavar="SECRET", help="Client secret. Prefer the variable."),
]
_Domains = Annotated[
    list[str] | None, typer.Option("--domain", metavar="DOMAIN", help="Email domain of the provider; repeatable.")
]
_Trust = Annotated[
    bool | None,
    typer.Option(
        "--trust-addresses/--no-trust-addresses",
        help="Trust email addresses that are not marked as verified (Microsoft Entra ID).",
    ),
]
_Groups = Annotated[
    GroupsClaim | None,
    typer.Option("--groups", case_sensitive=False, help="The claim with the external ids of a person's groups."),
]
_Accounts = Annotated[
    bool | None, typer.Option("--create-accounts/--no-create-accounts", help="Create accounts at the first sign-in.")
]
_SignOut = Annotated[
    bool | None, typer.Option("--sign-out-there/--sign-out-here", help="Also sign people out at the provider.")
]

PROVIDERS: Columns[SignInProvider] = {
    "provider": lambda provider: provider.provider_id,
    "name": lambda provider: provider.name,
    "issuer": lambda provider: provider.issuer,
    "domains": lambda provider: provider.domains,
    "not confirmed": lambda provider: provider.unconfirmed_domains,
    "trusts addresses": lambda provider: provider.trust_addresses,
    "groups": lambda provider: provider.groups_claim,
    "creates accounts": lambda provider: provider.create_accounts,
}


@app.command("list")
def list_providers(*, as_json: AsJson = False) -> None:
    """List the OpenID Connect providers."""
    with connect(as_json=as_json) as (screen, client):
        found = client.admin.sign_in_providers.list(page_size=1000)
        empty = "People sign in with a password. Add a provider with: carrel providers add"
        show_list(screen, "signInProviders", found, PROVIDERS, empty=empty)


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Button label on the sign-in page.")],
    *,
    issuer: Annotated[str, typer.Option("--issuer", metavar="URL", help="Issuer, as in its metadata.")],
    client_id: Annotated[str, typer.Option("--client-id", metavar="ID", help="Client id at the provider.")],
    secret: _Secret = None,
    domain: _Domains = None,
    trust_addresses: _Trust = False,
    groups: _Groups = GroupsClaim.NONE,
    create_accounts: _Accounts = False,
    sign_out_there: _SignOut = False,
    as_json: AsJson = False,
) -> None:
    """Add a provider; the addresses to register there are printed."""
    with connect(as_json=as_json) as (screen, client):
        if not secret:
            raise usage(screen, f"Give the client secret in the variable {SECRET_VARIABLE}, or with --secret.")
        if not domain:
            raise usage(screen, "Give the provider's email domains with --domain.")
        made = client.admin.sign_in_providers.create(
            name,
            issuer=issuer,
            client_id=client_id,
            client_secret=secret,
            domains=domain,
            trust_addresses=bool(trust_addresses),
            groups_claim=groups or GroupsClaim.NONE,
            create_accounts=bool(create_accounts),
            sign_out_there=bool(sign_out_there),
        )
    say_done(screen, "created", f"Added provider {made.provider_id}.", **to_json(made))
    screen.line(f"Redirect URL to register: {made.redirect_uri}")
    screen.line(f"Post-logout URL to register: {made.logout_redirect_uri}")
    screen.line(f"Back-channel logout URL to register: {made.backchannel_logout_uri}")


@app.command()
def change(
    provider: _Provider,
    *,
    name: Annotated[str | None, typer.Option("--name", help="Button label on the sign-in page.")] = None,
    client_id: Annotated[str | None, typer.Option("--client-id", metavar="ID", help="New client id.")] = None,
    secret: _Secret = None,
    domain: _Domains = None,
    trust_addresses: _Trust = None,
    groups: _Groups = None,
    create_accounts: _Accounts = None,
    sign_out_there: _SignOut = None,
    as_json: AsJson = False,
) -> None:
    """Change a provider; omitted options stay unchanged. The issuer can't be changed."""
    with connect(as_json=as_json) as (screen, client):
        changed = client.admin.sign_in_providers.update(
            provider,
            name=name,
            client_id=client_id,
            client_secret=secret or None,
            domains=domain or None,
            trust_addresses=trust_addresses,
            groups_claim=groups,
            create_accounts=create_accounts,
            sign_out_there=sign_out_there,
        )
    say_done(screen, "changed", f"Changed provider {provider}.", **to_json(changed))


@app.command("test")
def find_problems(provider: _Provider, *, as_json: AsJson = False) -> None:
    """Ask a provider for the data of a sign-in, and report problems."""
    with connect(as_json=as_json) as (screen, client):
        problems = client.admin.sign_in_providers.test(provider).problems
    code = ExitCode.PROBLEMS if problems else ExitCode.DONE
    first, *others = problems or ["No problems found. Sign in to test the rest."]
    say_done(screen, "tested", first, code=code, problems=problems)
    screen.lines(others)
    raise typer.Exit(code)


@app.command()
def delete(provider: _Provider, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a provider: no more sign-ins with the provider. Existing accounts stay."""
    with connect(as_json=as_json, yes=yes) as (screen, client):
        confirm(screen, f"Delete provider {provider}?")
        client.admin.sign_in_providers.delete(provider)
    say_done(screen, "deleted", f"Deleted provider {provider}.", providerId=str(provider))
