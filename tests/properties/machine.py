"""The state machine: all operations on an organization, in any order, also two at once."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from itertools import count
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, precondition, rule

from tests.harness.processes import ServiceProcess
from tests.properties.asking import AnsweredQuestion, AskedQuestion
from tests.properties.comparisons import SCOPES
from tests.properties.model import EDITOR, EVERYONE, MESSAGING, READING, VIEWER, WRITING, Model, Text, User, outcome
from tests.properties.operations import LONG_REST, SHORT_REST, Actor, Operations, an_operation
from tests.properties.world import ADMIN, MODES, World, outcome_of

LETTERS = str.maketrans("0123456789", "abcdefghij")
# So many documents of so many parts that a search shows all of their chunks.
MOST_USERS, MOST_GROUPS, MOST_DOCUMENTS, MOST_COLLECTIONS = 7, 7, 9, 3
MOST_ACCOUNTS, MOST_CREDENTIALS, MOST_AGENTS = 3, 7, 3
PARTS = (1, 1, 2, 9)
PAGE_SIZES = (3, 7, 2, 5)
# After one step in so many somebody looks through /mcp, too.
BETWEEN_ELSEWHERE = 4


def act(*, rest: int = SHORT_REST, **strategies: Any) -> Callable[[Callable[..., Any]], Any]:
    """A rule with pauses of some steps: otherwise examples repeat the beginning."""

    def decorate(method: Callable[..., Any]) -> Any:
        name = method.__name__

        @wraps(method)
        def resting(self: "Permissions", *given: Any, **drawn: Any) -> Any:
            self.rest(name, rest)
            return method(self, *given, **drawn)

        return precondition(lambda self: self.rested(name))(rule(**strategies)(resting))

    return decorate


def begin_with(names: str, target: "Bundle[str]") -> Any:

    def begin(self: "Permissions") -> Any:
        return multiple(*getattr(self.model, names))

    begin.__name__ = f"begin_with_{names}"
    return initialize(target=target)(begin)


class Permissions(Operations, RuleBasedStateMachine):
    """An organization with people, accounts, uploads and readers."""

    users = Bundle("users")
    accounts = Bundle("accounts")
    credentials = Bundle("credentials")
    groups = Bundle("groups")
    documents = Bundle("documents")
    collections = Bundle("collections")
    agents = Bundle("agents")
    able = st.sampled_from((True, True, False))
    actors = st.tuples(st.one_of(users, credentials), able)
    somebody = st.one_of(users, groups, accounts)
    owners = st.one_of(users, users, accounts, somebody)
    members = st.lists(somebody, max_size=3)
    some_members = st.lists(somebody, min_size=1, max_size=3)
    readers = st.none() | st.lists(somebody | st.just(EVERYONE), max_size=3)
    granted = st.tuples(somebody, st.sampled_from((VIEWER, VIEWER, EDITOR)))
    grants = st.lists(st.one_of(granted, granted, st.just((EVERYONE, VIEWER))), max_size=3)
    resources = st.one_of(documents, documents, collections, agents)
    # Enough tokens that may do everything, and enough that message agents without the scope for it.
    scopes = st.sets(st.sampled_from(SCOPES)) | st.sampled_from([{READING, WRITING, MESSAGING}, {READING, WRITING}])
    users_of_agents = st.lists(st.one_of(somebody, somebody, st.just(EVERYONE)), max_size=3)
    # Whether a name that is gone is tried all the same.
    strict = st.sampled_from((False, False, False, True))

    def __init__(self, service: ServiceProcess, taken: "Counter[str]") -> None:
        super().__init__()
        self.world = World(service)
        self.model = Model(users={ADMIN: User(is_admin=True)})
        self.markers = set()
        self.titles = set()
        self.said = []
        self.numbers = count(1)
        # The same for the same example, so that it fails again when it is run again.
        self.chance = Random(0)  # noqa: S311
        self.taken = taken
        self.steps = 0
        self.rests = {}
        self.do(an_operation("enable_accounts", enabled=True))
        people = [self.create_user() for _ in range(3)]
        robot = self.create_account()
        inner, beside = (self.create_group([people[0], robot], strict=True) for _ in range(2))
        middle = self.create_group([inner, beside], strict=True)
        outer = self.create_group([middle, people[1]], strict=True)
        document = self.upload_new((people[0], True), 1, None, strict=True)
        self.do(an_operation("grant", {document: [(outer, VIEWER), (ADMIN, EDITOR)]}))
        self.do(an_operation("share", people[0], document, [(people[2], EDITOR), (inner, VIEWER)]))
        collection = self.create_collection((ADMIN, True))
        self.index_in_collection((ADMIN, True), document, collection, again=False)
        self.do(an_operation("grant", {collection: [(EVERYONE, VIEWER), (inner, VIEWER)]}))
        agent = self.define_agent([collection], api_access=True)
        self.deploy_agent(agent, [outer, ADMIN], strict=True)
        self.ask_an_agent((people[0], True), agent, document, go_on=False)
        self.mint(robot, {READING, WRITING, MESSAGING}, strict=True)
        self.create_key(people[0], acts_for_users=False)
        leaver = self.create_user()
        self.create_key(leaver, acts_for_users=False)
        left = self.upload_new((leaver, True), 1, [inner, robot], strict=False)
        self.do(an_operation("delete_document", leaver, left))
        self.do(an_operation("add_members", inner, [leaver]))
        self.do(an_operation("offboard", leaver, people[2], by=ADMIN))
        self.do(an_operation("restore_document", people[1], left))
        assert self.do(an_operation("restore_document", people[2], left))
        self.rests = {"everybody_sees_what_the_model_says": LONG_REST}

    # A chain of three groups, by two ways, with a user and an account at its end, and what the whole chain may use.
    begin_with_users = begin_with("users", users)
    begin_with_accounts = begin_with("accounts", accounts)
    begin_with_credentials = begin_with("credentials", credentials)
    begin_with_groups = begin_with("groups", groups)
    begin_with_documents = begin_with("documents", documents)
    begin_with_collections = begin_with("collections", collections)
    begin_with_agents = begin_with("agents", agents)

    def a_marker(self) -> str:
        self.markers.add(made := f"marker{next(self.numbers):04d}x".translate(LETTERS))
        return made

    def a_title(self) -> str:
        self.titles.add(made := f"title{next(self.numbers):04d}x")
        return made

    def there(self, actor: Actor, named: str, those: Iterable[str]) -> str:
        return named if not actor[1] else _one_of(those, named)

    def mended(self, names: Iterable[str], *, strict: bool) -> list[str]:
        kept = [name for name in names if name == EVERYONE or name in self.model.principals]
        return [*kept, *self.gone[:1]] if strict else kept

    @property
    def gone(self) -> list[str]:
        return [name for name in reversed(self.world.account_ids) if name not in self.model.accounts]

    # People, and what they are called with.

    @precondition(lambda self: len(self.model.users) < MOST_USERS)
    @act(target=users)
    def create_user(self) -> str:
        name = f"u{len(self.model.users)}@example.test"
        self.world.put_user(name).raise_for_status()
        self.model.users[name] = User()
        return name

    @act(user=users, active=st.sampled_from((True, True, False)), is_admin=st.booleans())
    def change_user(self, user: str, active: bool, is_admin: bool) -> None:
        if user != ADMIN:
            self.do(an_operation("change_user", user, active=active, is_admin=is_admin and active))

    @precondition(lambda self: self.model.accounts_enabled)
    @act(rest=LONG_REST, for_long=st.sampled_from((False, False, True)))
    def disable_accounts(self, for_long: bool) -> None:
        self.do(an_operation("enable_accounts", enabled=False))
        for token in self.tokens:
            self.check_entry(token)
        if not for_long:
            self.enable_accounts()

    @precondition(lambda self: not self.model.accounts_enabled)
    @act()
    def enable_accounts(self) -> None:
        self.do(an_operation("enable_accounts", enabled=True))

    @precondition(lambda self: len(self.model.accounts) < MOST_ACCOUNTS)
    @act(target=accounts)
    def create_account(self) -> Any:
        name = f"robot {next(self.numbers)}"
        return name if self.do(an_operation("create_account", name)) else multiple()

    @precondition(lambda self: len(self.model.accounts) > 1)
    @act(account=accounts, strict=strict)
    def delete_account(self, account: str, strict: bool) -> None:
        self.do(an_operation("delete_account", account if strict else _one_of(self.model.accounts, account)))

    @precondition(lambda self: self.room_for_credentials)
    @act(target=credentials, account=accounts, scopes=scopes, strict=strict)
    def mint(self, account: str, scopes: set[str], strict: bool) -> Any:
        account = account if strict else _one_of(self.model.accounts, account)
        name = f"token {next(self.numbers)}"
        return name if self.do(an_operation("mint", name, account, frozenset(scopes))) else multiple()

    @precondition(lambda self: self.room_for_credentials)
    @act(target=credentials, user=users, acts_for_users=st.booleans())
    def create_key(self, user: str, acts_for_users: bool) -> Any:
        name = f"key {next(self.numbers)}"
        return name if self.do(an_operation("create_key", name, user, acts_for_users=acts_for_users)) else multiple()

    @property
    def room_for_credentials(self) -> bool:
        return sum(each.status == "active" for each in self.model.credentials.values()) < MOST_CREDENTIALS

    @act(credential=credentials)
    def revoke(self, credential: str) -> None:
        self.do(an_operation("revoke", credential))

    @act(credential=credentials)
    def let_expire(self, credential: str) -> None:
        self.taken["let_expire done"] += 1
        working = self.working()
        self.world.let_expire(credential)
        self.model.credentials[credential].expired = True
        self.check_stopped(working)

    @act(credential=credentials, user=users)
    def name_a_user(self, credential: str, user: str) -> None:
        if self.may(self.model.enter_for, credential, user, "permissions/listAuthorizedResources"):
            self.check_authorized_resources(credential, user, 3, userEmail=user)

    @act(credential=credentials, subject=users | accounts)
    def ask_about_somebody(self, credential: str, subject: str) -> None:
        operation = "permissions/checkResourceAuthorizationForUser"
        named = {"resource": self.world.resource("log/never")}
        if self.may(self.model.enter_about, credential, subject, operation, **named):
            self.check_authorizations(credential, subject, userEmail=self.world.address(subject))

    def may(self, enter: Callable[[str, str], str], by: str, named: str, operation: str, **body: Any) -> bool:
        expected = outcome(enter, by, named)
        response = self.world.call(operation, by, action="READ", userEmail=self.world.address(named), **body)
        self.taken[f"{enter.__name__} {expected[1] or 'done'}"] += 1
        assert outcome_of(response) == expected, response.text
        return expected[0] == 200

    # Groups.

    @precondition(lambda self: len(self.model.groups) < MOST_GROUPS)
    @act(target=groups, members=members, strict=strict)
    def create_group(self, members: list[str], strict: bool) -> Any:
        name = f"group {next(self.numbers)}"
        return name if self.do(an_operation("put_members", name, self.mended(members, strict=strict))) else multiple()

    @act(group=groups, members=members, strict=strict)
    def replace_members(self, group: str, members: list[str], strict: bool) -> None:
        self.do(an_operation("put_members", group, self.mended(members, strict=strict)))

    @act(group=groups, members=some_members, strict=strict)
    def add_members(self, group: str, members: list[str], strict: bool) -> None:
        if members := self.mended(members, strict=strict):
            self.do(an_operation("add_members", group, members))

    @act(group=groups, members=some_members, strict=strict)
    def remove_members(self, group: str, members: list[str], strict: bool) -> None:
        if members := self.mended(members, strict=strict):
            self.do(an_operation("remove_members", group, members))

    @act(group=groups)
    def restore_group(self, group: str) -> None:
        self.do(an_operation("restore_group", group))

    # An identity provider (SCIM), which knows people and groups alone.

    @act(user=users, active=st.sampled_from((True, True, False)))
    def provision(self, user: str, active: bool) -> None:
        if user != ADMIN:
            self.do(an_operation("provision", user, active=active))

    @act(rest=LONG_REST, user=users, back=st.booleans())
    def provision_end(self, user: str, back: bool) -> None:
        if user != ADMIN:
            self.do(an_operation("provision_end", user))
            if back:
                self.do(an_operation("provision_new", user))

    @act(user=users)
    def provision_new(self, user: str) -> None:
        self.do(an_operation("provision_new", user))

    @act(group=groups, members=members)
    def provision_members(self, group: str, members: list[str]) -> None:
        self.do(an_operation("provision_members", group, self.known_to_provider(members)))

    @act(group=groups, add=members, remove=some_members)
    def provision_change(self, group: str, add: list[str], remove: list[str]) -> None:
        add, remove = self.known_to_provider(add), self.known_to_provider(remove)
        if add or remove:
            self.do(an_operation("provision_change", group, add=add, remove=remove))

    def known_to_provider(self, names: Iterable[str]) -> list[str]:
        return [name for name in dict.fromkeys(names) if name in self.model.users or name in self.model.groups]

    # Documents.

    @precondition(lambda self: len(self.model.documents) < MOST_DOCUMENTS)
    @act(target=documents, actor=actors, parts=st.sampled_from(PARTS), readers=readers, strict=strict)
    def upload_new(self, actor: Actor, parts: int, readers: list[str] | None, strict: bool) -> Any:
        name, text = f"log/{next(self.numbers)}", Text(self.a_title(), self.a_marker(), parts)
        readers = None if readers is None else self.mended(readers, strict=strict)
        return name if self.do_as(actor, "upload", name, text, readers=readers) else multiple()

    @act(
        actor=actors,
        document=documents,
        parts=st.sampled_from(PARTS),
        readers=readers,
        reindex=st.booleans(),
        strict=strict,
    )
    def upload_other_contents(
        self, *, actor: Actor, document: str, parts: int, readers: list[str] | None, reindex: bool, strict: bool
    ) -> None:
        if document not in self.model.documents and len(self.model.documents) == MOST_DOCUMENTS:
            return
        readers = None if readers is None else self.mended(readers, strict=strict)
        self.do_as(actor, "upload", document, self.other_text(document, parts), readers=readers, reindex=reindex)

    def other_text(self, document: str, parts: int) -> Text:
        title = self.model.documents[document].text.title if document in self.model.documents else self.a_title()
        return Text(title, self.a_marker(), parts)

    @act(actor=actors, document=documents)
    def rename(self, actor: Actor, document: str) -> None:
        document = self.there(actor, document, self.model.documents)
        if document in self.model.documents:
            self.do_as(actor, "upload", document, replace(self.model.documents[document].text, title=self.a_title()))

    @act(actor=actors, document=documents, readers=readers, strict=strict)
    def upload_other_access(self, actor: Actor, document: str, readers: list[str] | None, strict: bool) -> None:
        document = self.there(actor, document, self.model.documents)
        if document in self.model.documents:
            readers = None if readers is None else self.mended(readers, strict=strict)
            self.do_as(actor, "upload", document, self.model.documents[document].text, readers=readers)

    @act(actor=actors, document=documents)
    def upload_the_same_access(self, actor: Actor, document: str) -> None:
        document = self.there(actor, document, self.model.documents)
        if document in self.model.documents and not self.model.documents[document].editors:
            there = self.model.documents[document]
            self.do_as(actor, "upload", document, there.text, readers=sorted(there.viewers))

    @act(actor=actors, document=documents, collection=collections, anew=st.booleans(), reindex=st.booleans())
    def upload_into_collection(self, actor: Actor, document: str, collection: str, anew: bool, reindex: bool) -> None:
        document = self.there(actor, document, self.model.documents)
        collection = self.there(actor, collection, self.model.collections)
        if document in self.model.documents:
            text = self.model.documents[document].text
            text = replace(text, marker=self.a_marker()) if anew else text
            self.do_as(actor, "upload", document, text, collection=collection, reindex=reindex)

    @precondition(lambda self: len(self.model.documents) > 2)
    @act(actor=actors, document=documents)
    def delete_document(self, actor: Actor, document: str) -> None:
        self.do_as(actor, "delete_document", self.there(actor, document, self.model.documents))

    @precondition(lambda self: self.model.trash)
    @act(actor=actors, document=documents)
    def restore_document(self, actor: Actor, document: str) -> None:
        self.do_as(actor, "restore_document", self.there(actor, document, self.model.trash))

    # Grants.

    @act(resource=resources, given=grants, strict=strict)
    def grant(self, resource: str, given: list[tuple[str, str]], strict: bool) -> None:
        self.do(an_operation("grant", {resource: self.mended_grants(given, strict=strict)}))

    @act(several=st.lists(st.tuples(resources, grants), min_size=2, max_size=4), strict=strict)
    def grant_many(self, several: list[tuple[str, list[tuple[str, str]]]], strict: bool) -> None:
        self.do(an_operation("grant", {name: self.mended_grants(given, strict=strict) for name, given in several}))

    @act(actor=actors, resource=resources, given=st.lists(granted, max_size=3))
    def share(self, actor: Actor, resource: str, given: list[tuple[str, str]]) -> None:
        resource = self.there(actor, resource, {**self.model.documents, **self.model.collections})
        self.do_as(actor, "share", resource, [one for one in given if self.mended(one[:1], strict=False)])

    def mended_grants(self, given: list[tuple[str, str]], *, strict: bool) -> list[tuple[str, str]]:
        kept = [(who, role) for who, role in given if self.mended([who], strict=False)]
        return [*kept, *((who, EDITOR) for who in self.gone[:1])] if strict else kept

    # Owners.

    @act(owner=users | accounts, to=owners)
    def transfer(self, owner: str, to: str) -> None:
        self.do(an_operation("transfer", to, owner=owner))

    @act(names=st.lists(st.one_of(documents, documents, collections), min_size=1, max_size=3, unique=True), to=owners)
    def transfer_named(self, names: list[str], to: str) -> None:
        self.do(an_operation("transfer", to, names=tuple(names)))

    @act(rest=LONG_REST, user=users, to=owners)
    def offboard(self, user: str, to: str) -> None:
        self.do(an_operation("offboard", user, to, by=ADMIN))

    # Collections.

    @precondition(lambda self: len(self.model.collections) < MOST_COLLECTIONS)
    @act(target=collections, actor=actors)
    def create_collection(self, actor: Actor) -> Any:
        name = f"collection {next(self.numbers)}"
        return name if self.do_as(actor, "create_collection", name) else multiple()

    @act(actor=actors, document=documents, collection=collections, again=st.booleans())
    def index_in_collection(self, actor: Actor, document: str, collection: str, again: bool) -> None:
        document = self.there(actor, document, self.model.documents)
        collection = self.there(actor, collection, self.model.collections)
        self.do_as(actor, "index_in_collection", document, collection, again=again)

    @act(actor=actors, document=documents, collection=collections)
    def remove_from_collection(self, actor: Actor, document: str, collection: str) -> None:
        document = self.there(actor, document, self.model.documents)
        collection = self.there(actor, collection, self.model.collections)
        self.do_as(actor, "remove_from_collection", document, collection)

    @precondition(lambda self: len(self.model.collections) == MOST_COLLECTIONS)
    @act(actor=actors, collection=collections)
    def delete_collection(self, actor: Actor, collection: str) -> None:
        self.do_as(actor, "delete_collection", self.there(actor, collection, self.model.collections))

    # Agents.

    @precondition(lambda self: len(self.model.agents) < MOST_AGENTS)
    @act(target=agents, within=st.lists(collections, max_size=2), api_access=st.sampled_from((True, True, False)))
    def define_agent(self, within: list[str], api_access: bool) -> Any:
        name = f"agent {next(self.numbers)}"
        within = sorted(self.model.collections.keys() & set(within))
        return name if self.do(an_operation("put_agent", name, within, api_access=api_access)) else multiple()

    @precondition(lambda self: self.model.agents)
    @act(agent=agents, within=st.lists(collections, max_size=2), api_access=st.sampled_from((True, True, False)))
    def change_agent(self, agent: str, within: list[str], api_access: bool) -> None:
        within = sorted(self.model.collections.keys() & set(within))
        self.do(an_operation("put_agent", _one_of(self.model.agents, agent), within, api_access=api_access))

    @act(agent=agents, whom=users_of_agents, strict=strict)
    def deploy_agent(self, agent: str, whom: list[str], strict: bool) -> None:
        agent = agent if strict else _one_of(self.model.agents, agent)
        self.do(an_operation("deploy_agent", agent, self.mended(whom, strict=False)))

    @precondition(lambda self: len(self.model.agents) == MOST_AGENTS)
    @act(agent=agents, strict=strict)
    def delete_agent(self, agent: str, strict: bool) -> None:
        self.do(an_operation("delete_agent", agent if strict else _one_of(self.model.agents, agent)))

    @act(actor=actors, agent=agents, document=documents, go_on=st.booleans())
    def ask_an_agent(self, actor: Actor, agent: str, document: str, go_on: bool) -> None:
        agent, document = _one_of(self.model.agents, agent), _one_of(self.model.documents, document)
        if document not in self.model.documents:
            return
        by, marker = self.operation_of(actor, "message", agent).args[0], self.model.documents[document].text.marker
        question = AskedQuestion(by, agent, marker, key=f"question-{next(self.numbers)}")
        if go_on and self.said:
            question = replace(question, **self.conversation_of(self.chance.choice(self.said)))
        self.taken[f"message {self.check_question(question)}"] += 1

    @precondition(lambda self: self.said)
    @act()
    def ask_again(self) -> None:
        self.taken[f"message again {self.check_again(self.chance.choice(self.said))}"] += 1

    def conversation_of(self, said: AnsweredQuestion) -> dict[str, Any]:
        whose = (said.actor, said.question.agent)
        return {"conversation": whose, "conversation_id": said.result["conversationId"]}

    # Two at once.

    @precondition(lambda self: self.rested("race"))
    @act(actor=actors, document=documents, readers=readers, into=st.none() | collections, given=grants)
    def upload_while_granting(
        self, actor: Actor, document: str, readers: list[str] | None, into: str | None, given: list[tuple[str, str]]
    ) -> None:
        document = _one_of(self.model.documents, document)
        into = into if into in self.model.collections else None
        readers = None if readers is None else self.mended(readers, strict=False)
        text = self.other_text(document, self.chance.choice(PARTS))
        upload = self.operation_of(actor, "upload", document, text, readers=readers, collection=into)
        grants = {document: self.mended_grants(given, strict=False)}
        if into is not None and self.chance.random() < 0.5:
            grants[into] = [(EVERYONE, VIEWER), *grants[document]]
        self.race(upload, an_operation("grant", grants), document, into)

    @precondition(lambda self: self.rested("race"))
    @act(actor=actors, document=documents, collection=collections, again=st.booleans(), given=grants)
    def index_while_granting(
        self, actor: Actor, document: str, collection: str, again: bool, given: list[tuple[str, str]]
    ) -> None:
        document, collection = _one_of(self.model.documents, document), _one_of(self.model.collections, collection)
        index = self.operation_of(actor, "index_in_collection", document, collection, again=again)
        given = self.mended_grants(given, strict=False)
        names = self.chance.choice([(document,), (document, collection), (collection,)])
        self.race(index, an_operation("grant", dict.fromkeys(names, given)), document, collection)

    @precondition(lambda self: self.rested("race"))
    @act(actor=actors, document=documents, group=groups, members=some_members, adding=st.booleans())
    def upload_while_members_change(
        self, actor: Actor, document: str, group: str, members: list[str], adding: bool
    ) -> None:
        document = _one_of(self.model.documents, document)
        if members := self.mended(members, strict=False):
            upload = self.operation_of(actor, "upload", document, self.other_text(document, 2))
            self.race(upload, an_operation("add_members" if adding else "remove_members", group, members), document)

    @precondition(lambda self: self.rested("race"))
    @act(actor=actors, document=documents, readers=readers, to=owners)
    def upload_while_transferring(self, actor: Actor, document: str, readers: list[str] | None, to: str) -> None:
        document = _one_of(self.model.documents, document)
        readers = None if readers is None else self.mended(readers, strict=False)
        upload = self.operation_of(actor, "upload", document, self.other_text(document, 2), readers=readers)
        self.race(upload, an_operation("transfer", to, names=(document,)), document)

    @precondition(lambda self: self.rested("race"))
    @act(credential=credentials, document=documents, readers=readers, how=st.integers(0, 3))
    def upload_while_losing_the_right(
        self, credential: str, document: str, readers: list[str] | None, how: int
    ) -> None:
        document = _one_of(self.model.documents, document)
        readers = None if readers is None else self.mended(readers, strict=False)
        upload = self.operation_of(
            (credential, True), "upload", document, self.other_text(document, 1), readers=readers
        )
        by = upload.args[0]
        self.race(upload, self.loss(by, how), document)
        if not self.model.accounts_enabled:
            self.enable_accounts()

    # What is seen.

    @invariant()
    def somebody_sees_what_the_model_says(self) -> None:
        self.steps += 1
        self.taken["steps"] += 1
        everybody = sorted((*self.model.users, *self.model.credentials))
        self.check_some(*map(self.chance.choice, (everybody, MODES, PAGE_SIZES)))
        if self.steps % BETWEEN_ELSEWHERE == 0:
            self.taken[f"elsewhere {self.check_elsewhere(self.chance.choice(sorted(self.model.users)))}"] += 1

    @act(rest=LONG_REST, mode=st.sampled_from(MODES))
    def everybody_sees_what_the_model_says(self, mode: str) -> None:
        self.taken["everybody_sees done"] += 1
        self.check_everything(mode, 4)


def _one_of(those: Iterable[str], named: str) -> str:
    existing = sorted(those)
    if named in existing or not existing:
        return named
    return existing[sum(map(ord, named)) % len(existing)]
