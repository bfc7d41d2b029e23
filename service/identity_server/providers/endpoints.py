"""admin/signInProviders: extensions, for admins only."""

from carrel.wire import sign_in_providers as wire
from service.identity_server.providers import service
from service.web.dependencies import CallerDep, ConnectionDep, RuntimeDep, SnapshotDep
from service.web.routing import Router

router = Router()


@router.operation(wire.ADMIN_SIGN_IN_PROVIDERS_CREATE)
async def create_provider(
    request: wire.AdminSignInProvidersCreateRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminSignInProvidersCreateResponse:
    """Add an OpenID Connect provider that people of the organization sign in with."""
    provider = await service.create_provider(runtime, connection, caller, request=request)
    return wire.AdminSignInProvidersCreateResponse(**dict(provider))


@router.operation(wire.ADMIN_SIGN_IN_PROVIDERS_LIST)
async def list_providers(
    request: wire.AdminSignInProvidersListRequest, runtime: RuntimeDep, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminSignInProvidersListResponse:
    """List the providers that people of the organization sign in with."""
    page = await service.list_providers(runtime, connection, caller, request=request)
    return wire.AdminSignInProvidersListResponse(
        sign_in_providers=list(page.items), next_page_token=page.next_page_token
    )


@router.operation(wire.ADMIN_SIGN_IN_PROVIDERS_GET)
async def get_provider(
    request: wire.AdminSignInProvidersGetRequest, runtime: RuntimeDep, connection: SnapshotDep, caller: CallerDep
) -> wire.AdminSignInProvidersGetResponse:
    """Get a provider."""
    provider = await service.get_provider(runtime, connection, caller, provider_id=request.provider_id)
    return wire.AdminSignInProvidersGetResponse(**dict(provider))


@router.operation(wire.ADMIN_SIGN_IN_PROVIDERS_UPDATE)
async def update_provider(
    request: wire.AdminSignInProvidersUpdateRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminSignInProvidersUpdateResponse:
    """Change a provider; its issuer stays."""
    provider = await service.update_provider(runtime, connection, caller, request=request)
    return wire.AdminSignInProvidersUpdateResponse(**dict(provider))


@router.operation(wire.ADMIN_SIGN_IN_PROVIDERS_DELETE)
async def delete_provider(
    request: wire.AdminSignInProvidersDeleteRequest, runtime: RuntimeDep, connection: ConnectionDep, caller: CallerDep
) -> wire.AdminSignInProvidersDeleteResponse:
    """Delete a provider: nobody signs in with it any more."""
    await service.delete_provider(connection, caller, provider_id=request.provider_id, settings=runtime.settings)
    return wire.AdminSignInProvidersDeleteResponse(provider_id=request.provider_id)


@router.operation(wire.ADMIN_SIGN_IN_PROVIDERS_TEST)
async def test_provider(
    request: wire.AdminSignInProvidersTestRequest, runtime: RuntimeDep, caller: CallerDep
) -> wire.AdminSignInProvidersTestResponse:
    """Read a provider's metadata and keys, and say what is wrong; nobody is signed in."""
    problems = await service.find_problems(runtime, caller, provider_id=request.provider_id)
    return wire.AdminSignInProvidersTestResponse(problems=problems)
