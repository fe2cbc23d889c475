"""An identity provider for tests: it signs access tokens, and serves its public keys over HTTP."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa


class Provider:
    """Keys by id; `sign` uses the newest one unless it is asked for another."""

    def __init__(self) -> None:
        self._keys: dict[str, Any] = {}
        self.asked = 0  # for the keys
        self.status = 200
        self._server: ThreadingHTTPServer | None = None

    def add_key(self, key_id: str, algorithm: str = "RS256") -> None:
        if algorithm.startswith("ES"):
            self._keys[key_id] = algorithm, ec.generate_private_key(ec.SECP256R1())
        else:
            self._keys[key_id] = algorithm, rsa.generate_private_key(65537, 2048)

    def drop_key(self, key_id: str) -> None:
        del self._keys[key_id]

    def public_keys(self) -> bytes:
        """As a JWKS document."""
        listed = []
        for key_id, (algorithm, key) in self._keys.items():
            kind = jwt.algorithms.get_default_algorithms()[algorithm]
            shown = kind.to_jwk(key.public_key(), as_dict=True)
            listed.append({**shown, "kid": key_id, "alg": algorithm, "use": "sig"})
        return json.dumps({"keys": listed}).encode()

    def claims(self, *scopes: str, user: str = "orders", lives_s: float = 60) -> dict[str, Any]:
        return {
            "sub": user,
            "aud": "warren",
            "iss": "https://id.example",
            "exp": time.time() + lives_s,
            "scope": " ".join(scopes),
        }

    def token(self, *scopes: str, user: str = "orders", lives_s: float = 60) -> str:
        return self.sign(self.claims(*scopes, user=user, lives_s=lives_s))

    def sign(self, claims: dict[str, Any], key_id: str = "") -> str:
        key_id = key_id or list(self._keys)[-1]
        algorithm, key = self._keys[key_id]
        return jwt.encode(claims, key, algorithm, headers={"kid": key_id})

    def serve(self) -> str:
        """Begin to serve the keys; their address."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                content = provider.public_keys()
                self.send_response(provider.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_arguments: object) -> None:
                """Keep the output of tests free of it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}/keys"

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
