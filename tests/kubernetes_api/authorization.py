"""Who may do what: users by token, rights by roles.

Authenticating, "Static Token File" and "Anonymous requests"; Using RBAC Authorization, "Role and ClusterRole",
"RoleBinding and ClusterRoleBinding". A request without a token counts as the administrator's unless the cluster
requires tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .resources import Catalogue
from .status import ApiError, forbidden, unauthorized
from .store import Store

ADMIN_GROUP = "system:masters"


@dataclass(frozen=True)
class User:
    """The user who sends a request."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)


ADMIN = User("kubernetes-admin", (ADMIN_GROUP, "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


@dataclass(frozen=True)
class Action:
    """The attributes of a request (Authorization, "Review your request attributes")."""

    verb: str
    group: str
    resource: str
    child: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full(self) -> str:
        """The resource, with its subresource as rules name it: `pods/log`."""
        return f"{self.resource}/{self.child}" if self.child else self.resource

    @property
    def scope(self) -> str:
        """The namespace whose bindings count: that of the request, and for a namespace itself its own name.

        k8s.io/apiserver, `pkg/endpoints/request/requestinfo.go`.
        """
        itself = (self.group, self.resource) == ("", "namespaces")
        return self.namespace or (self.name if itself else "")


def service_account(namespace: str, name: str) -> User:
    """Returns the user of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


class Authority:
    """Authenticates users by their tokens, and authorizes actions by the cluster's roles."""

    def __init__(self, store: Store, catalogue: Catalogue, *, want_token: bool) -> None:
        self._store, self._want_token = store, want_token
        group = "rbac.authorization.k8s.io"
        self._roles = {"Role": catalogue.of("roles", group), "ClusterRole": catalogue.of("clusterroles", group)}
        self._bindings = (catalogue.of("rolebindings", group), catalogue.of("clusterrolebindings", group))
        self._tokens: dict[str, User] = {}

    def admit(self, token: str, user: User) -> None:
        """Registers a token of a user."""
        self._tokens[token] = user

    def who(self, header: str | None) -> User:
        """Returns the user of an `Authorization` header.

        Raises:
            ApiError: 401, the token is unknown.
        """
        if header is None:
            return ANONYMOUS if self._want_token else ADMIN
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or token not in self._tokens:
            raise unauthorized()
        return self._tokens[token]

    def check(self, user: User, action: Action) -> None:
        """Checks that a user may do an action.

        Raises:
            ApiError: 403, no role allows it.
        """
        if not self.allows(user, action):
            raise self._refusal(user, action)

    def allows(self, user: User, action: Action) -> bool:
        """Whether some role allows an action."""
        return ADMIN_GROUP in user.groups or any(_covers(rule, action) for rule in self._rules(user, action.scope))

    def _refusal(self, user: User, action: Action) -> ApiError:
        where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
        why = f'User "{user.name}" cannot {action.verb} resource "{action.full}" in API group "{action.group}" {where}'
        return forbidden(action.group, action.resource, action.name, why)

    def _rules(self, user: User, namespace: str) -> Iterator[dict[str, Any]]:
        for bindings in self._bindings:
            if bindings.namespaced and not namespace:
                continue
            shelf = self._store.shelf(bindings)
            for key in list(shelf.by_namespace.get(namespace if bindings.namespaced else "", ())):
                binding = self._store.get(bindings, key)
                if binding is not None and any(_is(each, user) for each in binding.data.get("subjects") or ()):
                    yield from self._granted(binding.data["roleRef"], namespace)

    def _granted(self, reference: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
        role = self._roles[reference["kind"]]
        found = self._store.get(role, (namespace if role.namespaced else "", reference["name"]))
        return (found.data.get("rules") or []) if found else []


def _is(subject: dict[str, Any], user: User) -> bool:
    if subject["kind"] == "ServiceAccount":
        return user.name == f"system:serviceaccount:{subject.get('namespace')}:{subject['name']}"
    return subject["name"] == user.name if subject["kind"] == "User" else subject["name"] in user.groups


def _covers(rule: dict[str, Any], action: Action) -> bool:
    def has(name: str, *wanted: str) -> bool:
        return any(each in (rule.get(name) or ()) for each in ("*", *wanted))

    named = rule.get("resourceNames")
    child = (f"*/{action.child}",) if action.child else ()
    return (
        has("verbs", action.verb)
        and has("apiGroups", action.group)
        and has("resources", action.full, *child)
        and (not named or action.name in named)
    )
