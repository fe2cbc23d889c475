"""Who asks, and what that user may see, by tag: RabbitMQ's rules.

Any of the tags below lets a user in. `management` sees its own vhosts and connections, and changes
there what its permissions allow; `policymaker` also sets policies and parameters there. Monitoring
and administrator see all; vhosts, users, permissions and definitions are the administrator's.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from aiohttp import web
from msgspec import Struct, field

from node.auth.access import AccessView
from node.auth.login import Accepted, Refused
from node.auth.login_checks import LoginChecks
from node.auth.permissions import open_vhosts
from node.auth.sasl import Credentials, parse_basic, parse_bearer, parse_form
from node.auth.source import Source
from node.config.default_policies import DefaultPolicy
from node.management.bodies import read_raw
from node.management.operations import NodeControls, Operations
from node.management.replies import ApiError
from node.management.rows.pairs import Pairs
from node.management.rows.sampling import Rates
from node.management.rows.view import BrokerView
from queues.definitions.queue_arguments import CLASSIC

if TYPE_CHECKING:
    from node.config.settings import Config
    from node.connections.web_amqp import WebAmqp
    from node.events.audit import Audit
    from node.events.event_feed import EventFeed
    from node.federating.link_service import LinkService
    from node.leases.leases import Leases
    from node.management.metrics.view import MetricsView
    from node.management.rows.cluster_view import ClusterView
    from node.tls.keeper import TlsKeeper

LOGIN_TAGS: Final = frozenset({"management", "policymaker", "monitoring", "administrator"})
MONITOR_TAGS: Final = frozenset({"monitoring", "administrator"})
POLICY_TAGS: Final = frozenset({"policymaker", "administrator"})
LOGIN_PATH: Final = "/api/login"
FORM: Final = "application/x-www-form-urlencoded"
CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="Warren Management"'}


class Context(Struct, frozen=True):
    """What every resource reads from."""

    view: BrokerView
    access: AccessView
    logins: LoginChecks
    operations: Operations
    metrics_need_login: bool = False  # from loopback; from elsewhere they always do
    cluster: "ClusterView | None" = None  # None: this node is asked alone
    feed: "EventFeed | None" = None  # of events; None: events are not available
    audit: "Audit | None" = None
    rates: Rates = field(default_factory=Rates)  # nothing is sampled, unless sampling is set up
    meter: "MetricsView | None" = None  # None: no samples of single objects
    controls: NodeControls | None = None  # None: the node cannot be told anything
    config: "Config | None" = None  # None: it is not shown
    links: "LinkService | None" = None  # None: no shovels and links run here
    leases: "Leases | None" = None  # None: the node does not run
    web_amqp: "WebAmqp | None" = None  # None: AMQP over WebSocket is off
    keepers: "Mapping[str, TlsKeeper]" = field(default_factory=dict)  # of TLS, by listener

    @property
    def default_policies(self) -> Sequence[DefaultPolicy]:
        """Operator policies that vhosts begin with."""
        return () if self.config is None else self.config.default_operator_policies

    @property
    def default_queue_type(self) -> str:
        """Type of new queues that name none, in vhosts without a default of their own."""
        return CLASSIC if self.config is None else self.config.default_queue_type

    @property
    def pairs(self) -> Pairs:
        """Who publishes where."""
        cluster = self.cluster
        return Pairs(self.view.clients, self.rates, None) if cluster is None else cluster.pairs


class Caller(Struct, frozen=True):
    """The user of a request."""

    name: str
    tags: frozenset[str]
    access: AccessView

    @property
    def is_monitor(self) -> bool:
        return bool(self.tags & MONITOR_TAGS)

    @property
    def is_administrator(self) -> bool:
        return "administrator" in self.tags

    @property
    def is_policymaker(self) -> bool:
        return bool(self.tags & POLICY_TAGS)

    def require_monitor(self) -> None:
        if not self.is_monitor:
            raise not_authorized("Not monitor user")

    def require_administrator(self) -> None:
        if not self.is_administrator:
            raise not_authorized("Not administrator user")

    def require_policymaker(self) -> None:
        if not self.is_policymaker:
            raise not_authorized("User not authorised to access object")


CALLER: Final = web.RequestKey("caller", Caller)


async def credentials_of(request: web.Request) -> Credentials | None:
    """By HTTP Basic or Bearer; a request that only tries a login has them in a form."""
    if request.method != "POST" or request.path.rstrip("/") != LOGIN_PATH:
        header = request.headers.get("Authorization", "")
        return parse_bearer(header) or parse_basic(header)
    if request.content_type != FORM:
        return None
    return parse_form(await read_raw(request))


async def identify(context: Context, request: web.Request) -> Caller:
    """The caller of this request; ApiError 401 without a login."""
    credentials = await credentials_of(request)
    if credentials is None:
        raise not_authorized("Login failed", challenge=True)
    outcome = await context.logins.login_with(credentials, Source(request.remote or "", "http"))
    if isinstance(outcome, Refused):
        raise not_authorized("Login failed", log_text=outcome.text, challenge=True)
    assert isinstance(outcome, Accepted)
    if not LOGIN_TAGS.intersection(outcome.tags):
        raise not_authorized("Not management user")
    access = outcome.access or context.access
    return Caller(outcome.user, frozenset(outcome.tags), access)


def caller_of(request: web.Request) -> Caller:
    """Who asks; put there before any resource is called."""
    return request[CALLER]


def visible_vhosts(context: Context, caller: Caller) -> list[str]:
    """The names of the vhosts that the caller may see, in order. Undecided."""
    names = sorted(context.view.vhost_names())
    if caller.is_monitor:
        return names
    return open_vhosts(caller.access, caller.name, names)


def policy_vhosts(context: Context, request: web.Request) -> list[str]:
    """As `asked_vhosts`, for users that may set policies and parameters there."""
    caller_of(request).require_policymaker()
    return asked_vhosts(context, request)


def asked_vhosts(context: Context, request: web.Request) -> list[str]:
    """The vhost in the path, or all that the caller may see; 404 or 401 for one it may not."""
    vhost = request.match_info.get("vhost")
    visible = visible_vhosts(context, caller_of(request))
    if vhost is None:
        return visible
    if vhost in visible:
        return [vhost]
    if vhost in context.view.vhost_names():
        raise not_authorized("User not authorised to access virtual host")
    raise ApiError.not_found()


def not_authorized(reason: str, log_text: str = "", challenge: bool = False) -> ApiError:
    if challenge:
        return ApiError(401, "not_authorized", reason, CHALLENGE, log_text)
    return ApiError(401, "not_authorised", reason, log_text=log_text)
