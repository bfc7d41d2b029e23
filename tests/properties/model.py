"""The rights in the plainest form: names in sets, without any derived state."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

EVERYONE = "everyone"
OWNER, EDITOR, VIEWER = "OWNER", "EDITOR", "VIEWER"
READING, WRITING, MESSAGING = "catalog:read", "catalog:write", "agent:message"
ADMINISTERING, SHARING = "what no scope allows", "what no token may"

Chain = tuple[str, ...]
"""Names from a principal through groups (or EVERYONE) to the holder of the role that ends the chain."""


class RefusedError(Exception):
    """The service's expected refusal of an operation."""

    def __init__(self, status: int, code: str | None) -> None:
        super().__init__(status, code)
        self.status = status
        self.code = code


@dataclass(frozen=True)
class Text:
    """A document's contents: title, a unique word, and the number of chunks with the word."""

    title: str
    marker: str
    parts: int

    @property
    def words(self) -> frozenset[str]:
        return frozenset({self.title, self.marker})


@dataclass
class User:
    active: bool = True
    is_admin: bool = False


@dataclass
class Credential:
    """An API key of a user, or a service account's token, which alone has scopes."""

    owner: str
    scopes: frozenset[str] | None = None
    acts_for_users: bool = False
    revoked: bool = False
    expired: bool = False

    @property
    def status(self) -> str:
        return "revoked" if self.revoked else "expired" if self.expired else "active"


@dataclass
class Resource:
    """Something with direct grants on it; EVERYONE may be among the viewers. An agent has no owner. `shares` are the
    roles that the owner gave."""

    owner: str | None
    viewers: set[str] = field(default_factory=set)
    editors: set[str] = field(default_factory=set)
    shares: set[tuple[str, str]] = field(default_factory=set)

    def end_shares(self) -> None:
        self.viewers = self.viewers - {who for who, role in self.shares if role == VIEWER}
        self.editors = self.editors - {who for who, role in self.shares if role == EDITOR}
        self.shares = set()

    @property
    def holders(self) -> set[str]:
        return self.owners | self.viewers | self.editors

    @property
    def owners(self) -> set[str]:
        return set() if self.owner is None else {self.owner}

    @property
    def roles(self) -> set[tuple[str, str]]:
        granted = ((OWNER, self.owners), (EDITOR, self.editors), (VIEWER, self.viewers))
        return {(holder, role) for role, holders in granted for holder in holders}


@dataclass(kw_only=True)
class Document(Resource):
    text: Text


@dataclass(kw_only=True)
class Collection(Resource):
    """A collection: the contents of each document at the last indexing there."""

    places: dict[str, Text] = field(default_factory=dict)


@dataclass(kw_only=True)
class Agent(Resource):
    collections: set[str]
    api_access: bool


@dataclass
class Model:
    """An organization; groups are sets of unique principal names. Users ask by the admin's key."""

    users: dict[str, User] = field(default_factory=dict)
    accounts: set[str] = field(default_factory=set)
    groups: dict[str, set[str]] = field(default_factory=dict)
    credentials: dict[str, Credential] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    # The last deletion of each name, with the collections that the document was in.
    trash: dict[str, tuple[Document, set[str]]] = field(default_factory=dict)
    collections: dict[str, Collection] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)
    accounts_enabled: bool = True
    # Whom an identity provider has deleted, and sees no more while they are inactive.
    released: set[str] = field(default_factory=set)

    # Who is who.

    @property
    def resources(self) -> dict[str, Resource]:
        return {**self.documents, **self.collections, **self.agents}

    @property
    def principals(self) -> set[str]:
        return self.users.keys() | self.groups.keys() | self.accounts

    @property
    def actors(self) -> set[str]:
        return {name for name, user in self.users.items() if user.active} | self.accounts

    def is_admin(self, actor: str) -> bool:
        return actor in self.users and self.users[actor].is_admin

    def held(self, principal: str) -> set[str]:
        held = {principal, EVERYONE} if principal in self.users else {principal}
        while around := {group for group, members in self.groups.items() if members & held} - held:
            held |= around
        return held

    def enter(self, by: str, needed: str) -> str:
        if by in self.users:
            if not self.users[by].active:
                raise RefusedError(400, "unknown_user")
            return by
        credential = self.credentials[by]
        if credential.status != "active":
            raise RefusedError(401, f"credential_{credential.status}")
        if credential.owner not in self.actors:
            raise RefusedError(401, "owner_inactive")
        if credential.scopes is None:
            if needed == ADMINISTERING and not self.users[credential.owner].is_admin:
                raise RefusedError(403, "admin_only")
        elif not self.accounts_enabled:
            raise RefusedError(403, "service_accounts_disabled")
        elif needed not in credential.scopes:
            raise RefusedError(
                403, "service_account_not_allowed" if needed in {ADMINISTERING, SHARING} else "missing_scope"
            )
        return credential.owner

    def enter_for(self, by: str, user: str) -> str:
        actor = self.enter(by, READING)
        if actor in self.accounts:
            raise RefusedError(400, "service_account_acts_as_itself")
        if not self.credentials[by].acts_for_users:
            raise RefusedError(403, "key_may_not_act_for_users")
        if user not in self.users:
            raise RefusedError(400, "unknown_user")
        return self.enter(user, READING)

    def enter_about(self, by: str, subject: str) -> str:
        actor = self.enter(by, READING)
        if self.is_admin(actor):
            if subject not in self.users.keys() | self.accounts:
                raise RefusedError(400, "unknown_user")
            return subject
        return actor if actor == subject and actor in self.users else self.enter_for(by, subject)

    # What is seen.

    def role(self, actor: str, resource: Resource) -> str | None:
        held = self.held(actor)
        if resource.owners & held:
            return OWNER
        if resource.editors & held:
            return EDITOR
        return VIEWER if resource.viewers & held else None

    def readers(self, resource: Resource) -> set[str]:
        groups = resource.holders & self.groups.keys()
        while inside := {member for group in groups for member in self.groups[group]} & self.groups.keys() - groups:
            groups |= inside
        return groups | {name for name in self.actors if self.role(name, resource)}

    def chains(self, principal: str, resource: Resource) -> set[Chain]:
        if principal not in self.actors | self.groups.keys():
            return set()
        ways: dict[str, set[Chain]] = {}
        found: set[Chain] = {(principal,)}
        while found:
            for chain in found:
                ways.setdefault(chain[-1], set()).add(chain)
            further = {(*chain, above) for chain in found for above in self._directly_around(chain[-1])}
            found = {chain for chain in further if chain[-1] not in ways}
        return {(*way, role) for holder, role in resource.roles for way in ways.get(holder, ())}

    def _directly_around(self, principal: str) -> set[str]:
        groups = {group for group, members in self.groups.items() if principal in members}
        return groups | {EVERYONE} if principal in self.users else groups

    def readable(self, actor: str) -> dict[str, Text]:
        return {name: each.text for name, each in self.documents.items() if self.role(actor, each)}

    def readable_in(self, actor: str, collection: str) -> dict[str, Text]:
        places, readable = self.collections[collection].places, self.readable(actor)
        return {
            name: Text(readable[name].title, place.marker, place.parts)
            for name, place in places.items()
            if name in readable
        }

    def searchable(self, actor: str) -> set[str]:
        return {name for name, each in self.collections.items() if self.role(actor, each)}

    def usable(self, actor: str) -> set[str]:
        return {name for name, each in self.agents.items() if self.role(actor, each)}

    def retrievable(self, actor: str, agent: str) -> list[tuple[str, Text]]:
        searched = self.agents[agent].collections & self.searchable(actor)
        return [found for collection in sorted(searched) for found in self.readable_in(actor, collection).items()]

    def editable(self, actor: str) -> set[str]:
        return {name for name, each in self.documents.items() if self.role(actor, each) in {OWNER, EDITOR}}

    def known(self, actor: str) -> dict[str, Text]:
        if self.is_admin(actor):
            return {name: each.text for name, each in self.documents.items()}
        return self.readable(actor)

    # What is done with principals, by an admin.

    def create_account(self, name: str) -> None:
        self._accounts_enabled()
        self.accounts.add(name)

    def delete_account(self, name: str) -> None:
        self._account(name)
        self.accounts.remove(name)
        for members in self.groups.values():
            members.discard(name)
        for resource in (*self.resources.values(), *(kept for kept, _ in self.trash.values())):
            resource.viewers.discard(name)
            resource.editors.discard(name)
        for credential in self.credentials.values():
            credential.revoked |= credential.owner == name

    def mint(self, name: str, account: str, scopes: frozenset[str]) -> None:
        self._accounts_enabled()
        self._account(account)
        self.credentials[name] = Credential(account, scopes)

    def create_key(self, name: str, user: str, *, acts_for_users: bool) -> None:
        self.enter(user, READING)
        self.credentials[name] = Credential(user, acts_for_users=acts_for_users)

    def revoke(self, credential: str) -> None:
        self.credentials[credential].revoked = True

    def change_user(self, name: str, *, active: bool, is_admin: bool) -> None:
        self._put_user(name, User(active, is_admin))
        if active:
            self.released.discard(name)

    def provision(self, name: str, *, active: bool) -> None:
        before = self._provisioned(name)
        self._put_user(name, User(active, before.is_admin and (before.active or not active)))

    def _put_user(self, name: str, user: User) -> None:
        self.users[name] = user
        for each in self.resources.values():
            if each.owner == name and not user.active:
                each.end_shares()

    def provision_new(self, name: str) -> None:
        if not self._is_released(name):
            raise RefusedError(409, "uniqueness")
        self.released.discard(name)
        self.users[name] = User()

    def provision_end(self, name: str) -> None:
        self._provisioned(name)
        self.released.add(name)
        self._put_user(name, User(active=False))
        for members in self.groups.values():
            members.discard(name)
        for credential in self.credentials.values():
            credential.revoked |= credential.owner == name

    def provision_members(self, group: str, members: Iterable[str]) -> None:
        known, before = self._provisioned_members(members), self.groups[group]
        # A PUT of what the provider sees changes nothing: the people it doesn't see stay then, too.
        if set(members) != {one for one in before - self.accounts if not self._is_released(one)}:
            self.groups[group] = known | (before & self.accounts)

    def provision_change(self, group: str, *, add: Iterable[str], remove: Iterable[str]) -> None:
        added = self._provisioned_members(set(add) - set(remove))
        self.groups[group] = self.groups[group] - {one for one in remove if not self._is_released(one)} | added

    def _provisioned(self, name: str) -> User:
        if self._is_released(name):
            raise RefusedError(404, None)
        return self.users[name]

    def _provisioned_members(self, members: Iterable[str]) -> set[str]:
        """Leave out deleted people; refuse a list of only deleted people."""
        known = {one for one in members if not self._is_released(one)}
        if members and not known:
            raise RefusedError(400, "invalidValue")
        return known

    def _is_released(self, name: str) -> bool:
        return name in self.released and not self.users[name].active

    def enable_accounts(self, *, enabled: bool) -> None:
        self.accounts_enabled = enabled

    def put_members(self, group: str, members: Iterable[str]) -> None:
        self._name(members)
        self.groups[group] = set(members)

    def add_members(self, group: str, members: Iterable[str]) -> None:
        self._name(members)
        self.groups[group] |= set(members)

    def remove_members(self, group: str, members: Iterable[str]) -> None:
        self._name(members)
        self.groups[group] -= set(members)

    def restore_group(self, group: str) -> None:
        """Delete and restore a group: members, parent groups and roles are the same."""

    def grant(self, grants: dict[str, list[tuple[str, str]]]) -> None:
        resources = self.resources
        if not grants.keys() <= resources.keys():
            raise RefusedError(404, "resource_not_found")
        self._name(holder for given in grants.values() for holder, _ in given)
        for name, given in grants.items():
            resources[name].viewers = {holder for holder, role in given if role == VIEWER}
            resources[name].editors = {holder for holder, role in given if role == EDITOR}
            resources[name].shares &= resources[name].roles

    def share(self, by: str, name: str, given: list[tuple[str, str]]) -> None:
        """Replace the shares of an owner; a role that a person has already is no share."""
        actor, resource = self.enter(by, SHARING), self.resources.get(name)
        role = None if resource is None else self.role(actor, resource)
        if resource is None or role is None:
            raise RefusedError(404, "resource_not_found")
        if role is not OWNER:
            raise RefusedError(403, "owner_required")
        known = {name for name, user in self.users.items() if user.active} | (self.held(actor) & self.groups.keys())
        before = dict(resource.shares)
        stays = {(who, role) for who, role in given if before.get(who) in {role, EDITOR}}
        if not {who for who, _ in {*given} - stays} <= known:
            raise RefusedError(400, "unknown_principal")
        resource.end_shares()
        editors = {who for who, role in given if role == EDITOR} - resource.owners - resource.editors
        viewers = {who for who, role in given if role == VIEWER} - resource.holders - editors
        resource.shares = {(who, EDITOR) for who in editors} | {(who, VIEWER) for who in viewers}
        resource.editors, resource.viewers = resource.editors | editors, resource.viewers | viewers

    def transfer(self, to: str, *, owner: str | None = None, names: Iterable[str] = ()) -> None:
        """Transfer an owner's resources, or the named resources; the new owner loses all earlier roles on them."""
        if to not in self.actors or to == owner:
            raise RefusedError(400, "invalid_new_owner")
        resources = self.resources
        if not set(names) <= resources.keys():
            raise RefusedError(404, "resource_not_found")
        named = [resources[name] for name in names]
        every = *resources.values(), *(kept for kept, _ in self.trash.values())
        for each in named if owner is None else [each for each in every if each.owner == owner]:
            if each.owner != to:
                each.end_shares()
            each.owner, each.viewers, each.editors = to, each.viewers - {to}, each.editors - {to}

    def offboard(self, user: str, to: str, *, by: str) -> None:
        if user == by:
            raise RefusedError(409, "own_account")
        self.transfer(to, owner=user)
        self.users[user] = User(active=False)
        for members in self.groups.values():
            members.discard(user)
        for credential in self.credentials.values():
            credential.revoked |= credential.owner == user

    def _accounts_enabled(self) -> None:
        if not self.accounts_enabled:
            raise RefusedError(403, "service_accounts_disabled")

    def _account(self, name: str) -> None:
        if name not in self.accounts:
            raise RefusedError(404, "service_account_not_found")

    def _name(self, names: Iterable[str]) -> None:
        if not set(names) - {EVERYONE} <= self.principals:
            raise RefusedError(400, "unknown_principal")

    # Agents: what an admin makes of them, and who may message one.

    def put_agent(self, name: str, collections: Iterable[str], *, api_access: bool) -> None:
        if not set(collections) <= self.collections.keys():
            raise RefusedError(400, "unknown_collection")
        agent = self.agents.setdefault(name, Agent(None, collections=set(), api_access=api_access))
        agent.collections, agent.api_access = set(collections), api_access

    def deploy_agent(self, name: str, principals: Iterable[str]) -> None:
        self._agent(name)
        self._name(principals)
        self.agents[name].viewers, self.agents[name].editors = set(principals), set()

    def delete_agent(self, name: str) -> None:
        self._agent(name)
        del self.agents[name]

    def message(self, by: str, agent: str, conversation: tuple[str, str] | None = None) -> None:
        actor = self.enter(by, MESSAGING)
        if agent not in self.usable(actor):
            raise RefusedError(404, "agent_not_found")
        if conversation not in {None, (actor, agent)}:
            raise RefusedError(404, "conversation_not_found")
        if not self.agents[agent].api_access:
            raise RefusedError(403, "api_access_off")

    def _agent(self, name: str) -> None:
        if name not in self.agents:
            raise RefusedError(404, "agent_not_found")

    # What is done with documents and collections, by anybody.

    def upload(
        self,
        by: str,
        name: str,
        text: Text,
        *,
        readers: Iterable[str] | None = None,
        collection: str | None = None,
        reindex: bool = True,
    ) -> None:
        """Create or update a document; without `readers` access stays unchanged."""
        actor = self.enter(by, WRITING)
        document = self.documents.get(name)
        after = self._after_upload(actor, document, text, readers)
        if collection is not None:
            self._may_fill(actor, collection)
        self.documents[name] = after
        if document is not None and document.text != text and reindex:
            for each in self.collections.values():
                if name in each.places:
                    each.places[name] = text
        if collection is not None:
            self.collections[collection].places[name] = text

    def _after_upload(self, actor: str, before: Document | None, text: Text, readers: Iterable[str] | None) -> Document:
        role = None if before is None else self.role(actor, before)
        if before is not None and role not in {OWNER, EDITOR}:
            raise RefusedError(403, "external_id_taken")
        self._name(readers or ())
        if before is None:
            return Document(actor, set(readers or ()) - {actor}, text=text)
        if readers is None:
            return Document(before.owner, before.viewers, before.editors, before.shares, text=text)
        after = Document(before.owner, set(readers) - {before.owner}, text=text)
        after.shares = before.shares & after.roles
        same = (after.viewers, after.editors) == (before.viewers, before.editors)
        if not same and role is not OWNER and not self.is_admin(actor):
            raise RefusedError(403, "owner_required")
        return after

    def delete_document(self, by: str, name: str) -> None:
        actor = self.enter(by, WRITING)
        if name not in self.known(actor):
            raise RefusedError(404, "document_not_found")
        if self.role(actor, self.documents[name]) is not OWNER and not self.is_admin(actor):
            raise RefusedError(403, "owner_required")
        places = {place for place, each in self.collections.items() if each.places.pop(name, None)}
        self.documents[name].end_shares()
        self.trash[name] = self.documents.pop(name), places

    def restore_document(self, by: str, name: str) -> None:
        """Restore the last deleted document, into the collections open to the actor."""
        actor = self.enter(by, WRITING)
        document, places = self.trash.get(name, (None, set[str]()))
        if document is None or (document.owner != actor and not self.is_admin(actor)):
            raise RefusedError(404, "trashed_document_not_found")
        if name in self.documents:
            raise RefusedError(409, "external_id_in_use")
        del self.trash[name]
        self.documents[name] = document
        for collection in places & self.collections.keys():
            if self.is_admin(actor) or self.role(actor, self.collections[collection]) in {OWNER, EDITOR}:
                self.collections[collection].places[name] = document.text

    def create_collection(self, by: str, name: str) -> None:
        self.collections[name] = Collection(self.enter(by, WRITING))

    def index_in_collection(self, by: str, document: str, collection: str, *, again: bool) -> None:
        self._may_place(by, document, collection)
        places = self.collections[collection].places
        if again and document not in places:
            raise RefusedError(404, "document_not_in_collection")
        places[document] = self.documents[document].text

    def remove_from_collection(self, by: str, document: str, collection: str) -> None:
        self._may_place(by, document, collection)
        if self.collections[collection].places.pop(document, None) is None:
            raise RefusedError(404, "document_not_in_collection")

    def delete_collection(self, by: str, name: str) -> None:
        actor = self.enter(by, WRITING)
        role = self.role(actor, self.collections[name]) if name in self.collections else None
        if name not in self.collections or (role is None and not self.is_admin(actor)):
            raise RefusedError(404, "collection_not_found")
        if role is not OWNER and not self.is_admin(actor):
            raise RefusedError(403, "collection_owner_required")
        del self.collections[name]
        for agent in self.agents.values():
            agent.collections.discard(name)

    def _may_place(self, by: str, document: str, collection: str) -> None:
        actor = self.enter(by, WRITING)
        if document not in self.readable(actor):
            raise RefusedError(404, "document_not_found")
        self._may_fill(actor, collection)

    def _may_fill(self, actor: str, collection: str) -> None:
        if collection not in self.searchable(actor):
            raise RefusedError(404, "collection_not_found")
        if self.role(actor, self.collections[collection]) == VIEWER:
            raise RefusedError(403, "collection_editor_required")


def outcome(work: Callable[..., Any], *args: Any, **options: Any) -> tuple[int, str | None]:
    try:
        work(*args, **options)
    except RefusedError as refusal:
        return refusal.status, refusal.code
    return 200, None
