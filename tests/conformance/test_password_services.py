"""Logins whose password a service outside the node checks, with unchanged clients."""

import time
from collections.abc import Iterator

import pika
import pika.exceptions
import pytest
from proton import ConnectionException
from proton.utils import BlockingConnection

from tests.conformance.broker import GUEST
from tests.conformance.password_services import Directory, Fields, HttpService, directory
from warren.testing import Node
from warren.testing.http_api import HttpApi
from warren.testing.node import NodeFailed

# Without a password in the definitions; `bob` is not there at all.
ADA = """
[[users]]
name = "ada"
password_hash = ""
permissions = [{ vhost = "/", configure = "^ada$", write = ".*", read = ".*" }]
"""


def is_let_in(node: Node, user: str, password: str) -> bool:
    """By each protocol alike."""
    answers = {over_amqp091(node, user, password), over_http(node, user, password)}
    answers.add(over_amqp10(node, user, password))
    assert len(answers) == 1, answers
    return answers.pop()


def connected(node: Node, user: str, password: str) -> pika.BlockingConnection:
    login = pika.PlainCredentials(user, password)
    parameters = pika.ConnectionParameters(node.host, node.port, credentials=login)
    return pika.BlockingConnection(parameters)


def over_amqp091(node: Node, user: str, password: str) -> bool:
    try:
        connected(node, user, password).close()
    except pika.exceptions.ProbableAuthenticationError:
        return False
    return True


def over_amqp10(node: Node, user: str, password: str) -> bool:
    try:
        BlockingConnection(
            f"amqp://{node.host}:{node.port}", user=user, password=password, timeout=10
        ).close()
    except ConnectionException:
        return False
    return True


def over_http(node: Node, user: str, password: str) -> bool:
    import urllib.error

    api = HttpApi(node.management_url, user, password)
    try:
        api.get("/whoami")
    except (urllib.error.HTTPError, AssertionError) as error:
        assert "401" in str(error), error
        return False
    return True


@pytest.fixture(scope="module")
def service() -> Iterator[HttpService]:
    made = HttpService(lambda fields: (200, "deny"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def asking(service: HttpService) -> Iterator[Node]:
    config = f"""auth_backends = ["http:internal", "internal"]
{GUEST}{ADA}
[auth_http]
user_path = "{service.url}"
request_timeout = 500
[auth_cache]
cache_ttl = 100
"""
    with Node(name="asking", config=config) as node:
        yield node


def knows_ada(fields: Fields) -> tuple[int, str]:
    allowed = fields == {"username": "ada", "password": "engine & co"}
    return 200, "allow management" if allowed else "deny who is that"


def test_a_service_over_http_checks_passwords(service: HttpService, asking: Node) -> None:
    service.answer = knows_ada
    assert is_let_in(asking, "ada", "engine & co")
    assert not is_let_in(asking, "ada", "engine")
    assert not is_let_in(asking, "bob", "trees")
    assert is_let_in(asking, "guest", "guest")  # By the definitions, which come next.
    assert {method for method, _ in service.asked} == {"POST"}
    assert "engine" not in asking.log() and "refused by 'http'" in asking.log()


def test_what_the_user_may_is_in_the_definitions(service: HttpService, asking: Node) -> None:
    service.answer = knows_ada
    login = pika.PlainCredentials("ada", "engine & co")
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(asking.host, asking.port, credentials=login)
    )
    connection.channel().queue_declare("ada")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        connection.channel().queue_declare("other")
    connection.close()
    assert HttpApi(asking.management_url, "ada", "engine & co").get("/whoami")["tags"] == [
        "management"
    ]


def test_a_user_of_the_service_alone_is_refused(service: HttpService, asking: Node) -> None:
    service.answer = lambda fields: (200, "allow administrator")
    assert not is_let_in(asking, "bob", "trees")
    assert "unknown to the definitions" in asking.log()


@pytest.mark.parametrize(
    ("status", "text", "logged"),
    [
        (500, "allow", "answers with status 500"),
        (302, "allow", "answers with status 302"),
        (200, "maybe\nERROR all is lost", "answers 'maybe\\nerror all is lost'"),
        (200, "allow " + "x" * 5000, "answers with more than 4096 bytes"),
    ],
)
def test_an_answer_that_makes_no_sense_refuses(
    service: HttpService, asking: Node, status: int, text: str, logged: str
) -> None:
    service.answer = knows_ada
    time.sleep(0.2)  # What was accepted before is forgotten.
    assert over_amqp091(asking, "ada", "engine & co")  # The log has said that it answers again.
    service.answer = lambda fields: (status, text)
    time.sleep(0.2)
    assert not over_amqp091(asking, "ada", "engine & co")
    assert logged in asking.log()
    assert over_amqp091(asking, "guest", "guest")


def test_a_service_that_hangs_holds_up_no_other(service: HttpService, asking: Node) -> None:
    def slow(fields: Fields) -> tuple[int, str]:
        time.sleep(2)
        return 200, "allow"

    service.answer = slow
    begun_s = time.monotonic()
    assert not over_amqp091(asking, "ada", "something")
    assert time.monotonic() - begun_s < 1.9
    assert over_amqp091(asking, "guest", "guest")
    assert "no answer within 0.5 s" in asking.log()


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    with directory(tmp_path_factory.mktemp("slapd")) as started:
        yield started


def bound_to(people: Directory, *, port: int = 0, more: str) -> str:
    return f"""auth_backends = ["internal", "ldap:internal"]
{GUEST}{ADA}
[[users]]
name = "bob"
password_hash = ""
permissions = [{{ vhost = "/", configure = "", write = "", read = "" }}]
tags = ["management"]
[auth_ldap]
servers = ["127.0.0.1"]
port = {port or people.port}
timeout = 2000
{more}
[auth_cache]
cache_ttl = 100
"""


def test_a_directory_checks_passwords_by_a_pattern(people: Directory) -> None:
    pattern = 'user_dn_pattern = "cn=${username},ou=people,dc=example,dc=org"'
    with Node(config=bound_to(people, more=pattern)) as node:
        assert is_let_in(node, "bob", "trees")
        assert not is_let_in(node, "bob", "engine")
        assert is_let_in(node, "guest", "guest")
        for name in ("Ada Lovelace", "bob,ou=people", "*", "bob)(cn=*"):
            assert not over_amqp091(node, name, "trees")


@pytest.mark.parametrize("tls", ["use_starttls", "use_ssl"])
@pytest.mark.parametrize("bind", ["account", "as_user"])
def test_a_directory_is_searched_for_the_user_over_tls(
    people: Directory, bind: str, tls: str
) -> None:
    lookup = {
        "account": """dn_lookup_bind = "account"
bind_dn = "cn=node,dc=example,dc=org"
bind_password = "of the node"
""",
        "as_user": """user_dn_pattern = "cn=${username},ou=people,dc=example,dc=org"\n""",
    }[bind]
    more = f"""{lookup}{tls} = true
cacertfile = "{people.authority}"
dn_lookup_attribute = "uid"
dn_lookup_base = "ou=people,dc=example,dc=org"
"""
    port = people.tls_port if tls == "use_ssl" else people.port
    with Node(config=bound_to(people, port=port, more=more)) as node:
        assert over_amqp091(node, "bob", "trees")
        assert not over_amqp091(node, "bob", "engine")
        assert over_amqp091(node, "ada", "engine") == (bind == "account")
        assert not over_amqp091(node, "*", "engine")


GRANTS = """group_lookup_base = "ou=groups,dc=example,dc=org"
user_dn_pattern = "cn=${username},ou=people,dc=example,dc=org"
[[auth_ldap.grants]]
group = "cn=shop,ou=groups,dc=example,dc=org"
permissions = [{ vhost = "/", configure = "^shop", write = "^(shop|amq\\\\.default)" }]
[[auth_ldap.grants]]
group = "cn=audit,ou=groups,dc=example,dc=org"
tags = ["monitoring"]
permissions = [{ vhost = "/", read = "^shop" }]
"""


@pytest.mark.parametrize("account", [False, True], ids=["user", "account"])
def test_groups_of_a_directory_say_what_users_may(people: Directory, account: bool) -> None:
    """Neither user is in the definitions."""
    bound = 'bind_dn = "cn=node,dc=example,dc=org"\nbind_password = "of the node"\n'
    config = f"""auth_backends = ["internal", "ldap:ldap"]
{GUEST}
[auth_ldap]
servers = ["127.0.0.1"]
port = {people.port}
{bound if account else ""}{GRANTS}"""
    with Node(config=config) as node:
        with connected(node, "bob", "trees") as connection:
            channel = connection.channel()
            channel.queue_declare("shop.orders")
            channel.basic_publish("", "shop.orders", b"an order")
            assert channel.basic_get("shop.orders", auto_ack=True)[2] == b"an order"
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="configure access"):
                channel.queue_declare("other")
        with connected(node, "Ada Lovelace", "engine") as connection:
            channel = connection.channel()
            channel.queue_declare("shop.orders", passive=True)
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="write access"):
                channel.basic_publish("", "shop.orders", b"an order")
                channel.queue_declare("shop.orders", passive=True)
        api = HttpApi(node.management_url, "Ada Lovelace", "engine")
        assert api.get("/whoami")["tags"] == ["monitoring"]
        assert not over_amqp091(node, "bob", "engine")


def test_a_directory_whose_certificate_is_not_trusted_is_not_asked(people: Directory) -> None:
    with Node(config=bound_to(people, port=people.tls_port, more="use_ssl = true")) as node:
        assert not over_amqp091(node, "bob", "trees")
        assert "certificate verify failed" in node.log()
        assert over_amqp091(node, "guest", "guest")


def test_a_directory_that_is_not_there_is_passed_over() -> None:
    more = 'servers = ["127.0.0.1"]\nport = 1\nuser_dn_pattern = "cn=${username}"'
    config = f'auth_backends = ["ldap:internal", "internal"]\n{GUEST}{ADA}[auth_ldap]\n{more}\n'
    with Node(config=config) as node:
        assert is_let_in(node, "guest", "guest")
        assert not is_let_in(node, "ada", "engine")
        assert "the back end 'ldap' cannot be asked" in node.log()


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            "auth_backends = []",
            "one or more of internal, http:internal or http:http, ldap:internal",
        ),
        ('auth_backends = ["ldap:internal", "ldap:ldap"]', "each of them once"),
        (
            'auth_backends = ["ldap:ldap"]\n[auth_ldap]\nservers = ["x"]',
            "auth_ldap.group_lookup_base and auth_ldap.grants",
        ),
        ('auth_backends = ["ldap"]', "auth_backends"),
        ('auth_backends = ["http:internal"]', "auth_http.user_path = ''"),
        ('auth_backends = ["ldap:internal"]', "auth_ldap.servers is not set"),
        (
            'auth_backends = ["ldap:internal"]\n[auth_ldap]\nservers = ["x"]\n'
            'dn_lookup_bind = "account"',
            "only with auth_ldap.bind_dn",
        ),
        (
            'auth_backends = ["http:internal"]\n[auth_http]\nuser_path = "https://x/y"\n'
            'cacertfile = "/nowhere.pem"',
            "auth_http.cacertfile = /nowhere.pem",
        ),
    ],
)
def test_settings_that_cannot_work_stop_the_start(config: str, reason: str) -> None:
    with pytest.raises(NodeFailed) as caught:
        Node(config=config).__enter__()
    assert reason in str(caught.value)
