"""Services that check passwords, for tests: one over HTTP, and a directory (OpenLDAP's slapd)."""

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import trustme

from tests.conformance.programs import missing
from tests.waiting import eventually
from warren.testing.node import free_ports

Fields = dict[str, str]
Answer = Callable[[Fields], tuple[int, str]]  # status and text
Place = str  # the last part of a path
SCHEMAS = Path("/etc/ldap/schema")
PEOPLE = """dn: dc=example,dc=org
objectClass: domain
dc: example

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people

dn: cn=Ada Lovelace,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
cn: Ada Lovelace
sn: Lovelace
uid: ada
userPassword: engine

dn: cn=bob,ou=people,dc=example,dc=org
objectClass: inetOrgPerson
cn: bob
sn: Ross
uid: bob
userPassword: trees

dn: ou=groups,dc=example,dc=org
objectClass: organizationalUnit
ou: groups

dn: cn=shop,ou=groups,dc=example,dc=org
objectClass: groupOfNames
cn: shop
member: cn=bob,ou=people,dc=example,dc=org

dn: cn=audit,ou=groups,dc=example,dc=org
objectClass: groupOfUniqueNames
cn: audit
uniqueMember: cn=bob,ou=people,dc=example,dc=org
uniqueMember: cn=Ada Lovelace,ou=people,dc=example,dc=org

dn: cn=node,dc=example,dc=org
objectClass: applicationProcess
objectClass: simpleSecurityObject
cn: node
userPassword: of the node
"""


class HttpService:
    """Answers by `answer`; `asked` has the method and the fields of each request for a login.

    What is asked of permissions `answers_of` answers by the last part of the path; `questions` has
    it.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Fields]] = []
        self.answers_of: dict[Place, Answer] = {}
        self.questions: list[tuple[Place, Fields]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._decide(urlsplit(self.path).query)

            def do_POST(self) -> None:
                self._decide(self.rfile.read(int(self.headers["Content-Length"])).decode())

            def _decide(self, encoded: str) -> None:
                fields = dict(parse_qsl(encoded, keep_blank_values=True))
                place = urlsplit(self.path).path.rpartition("/")[2]
                if place == "user":
                    service.asked.append((self.command, fields))
                    status, text = service.answer(fields)
                else:
                    service.questions.append((place, fields))
                    status, text = service.answers_of[place](fields)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/auth/user"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Directory:
    """A running slapd with PEOPLE."""

    port: int
    tls_port: int
    authority: Path
    process: subprocess.Popen[bytes]


@contextmanager
def directory(folder: Path) -> Iterator[Directory]:
    slapd = shutil.which("slapd", path="/usr/sbin:/usr/bin:/usr/local/libexec")
    if slapd is None:
        missing("slapd is not installed (Debian: slapd)")
    authority, key = folder / "ca.pem", folder / "slapd.key"
    ca = trustme.CA()
    made = ca.issue_cert("localhost", "127.0.0.1")
    ca.cert_pem.write_to_path(str(authority))
    made.private_key_pem.write_to_path(str(key))
    certificate = folder / "slapd.pem"
    for blob in made.cert_chain_pems:
        blob.write_to_path(str(certificate), append=True)
    data, config, people = folder / "data", folder / "slapd.conf", folder / "people.ldif"
    data.mkdir()
    people.write_text(PEOPLE)
    config.write_text(
        "\n".join(
            [
                *(f"include {SCHEMAS}/{name}.schema" for name in ("core", "cosine")),
                f"include {SCHEMAS}/inetorgperson.schema",
                "modulepath /usr/lib/ldap",
                "moduleload back_mdb",
                f"TLSCertificateFile {certificate}",
                f"TLSCertificateKeyFile {key}",
                "database mdb",
                'suffix "dc=example,dc=org"',
                f"directory {data}",
                "access to attrs=userPassword by anonymous auth by * none",
                "access to * by users read by * auth",
                "",
            ]
        )
    )
    subprocess.run([slapd, "-T", "add", "-f", config, "-l", people], check=True, timeout=30)
    port, tls_port = free_ports(2)
    urls = f"ldap://127.0.0.1:{port} ldaps://127.0.0.1:{tls_port}"
    with (folder / "slapd.log").open("wb") as log:
        process = subprocess.Popen(
            [slapd, "-f", config, "-h", urls, "-d", "0"], stdout=log, stderr=log
        )
    try:
        eventually(lambda: is_open(port), lambda: (folder / "slapd.log").read_text())
        yield Directory(port, tls_port, authority, process)
    finally:
        process.terminate()
        process.wait(10)


def is_open(port: int) -> bool:
    import socket

    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
