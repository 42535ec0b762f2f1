"""Access control of the viewer's server: host, origin, token, size and rate of messages.

viser answers every request at its port, and any page in the user's browser can reach a port of this machine. The
guard is part of viser's own handshake: it wraps the server that viser starts, so that no second port is open behind it.

- The server listens on the loopback interface unless the user names another host; then a random token is needed.
- `Host` must be an address the server was opened under: another name that resolves to it (DNS rebinding) is refused.
- A web socket's `Origin` must be that same address: pages of other sites are refused.
- Messages of a client are limited in size and rate; other clients are not affected.
"""

from __future__ import annotations

import asyncio
import hmac
import http
import ipaddress
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from limberjack.errors import LimberjackError, StateError, require

__all__ = ["Guard", "Page", "close_tunnel", "free_port", "is_loopback"]

LARGEST_MESSAGE = 1024 * 1024
MESSAGES_PER_SECOND = 120.0
_BURST = 240.0
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "worker-src 'self' blob: data:; connect-src 'self' ws: wss: data: blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'"
)
# For the pages of this package, which need no scripts.
_STILL = "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_patching = threading.Lock()


class Page(NamedTuple):
    """What is answered besides viser's page: content and its type, or the address to go to instead."""

    content: bytes
    kind: str
    location: str | None = None


def is_loopback(host: str) -> bool:
    """Return whether `host` can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_port(host: str, port: int, tries: int = 100) -> int:
    """Return the first port from `port` on that `host` can listen on; 0 lets the system choose.

    viser itself would search without end for a host that does not exist.
    """
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise StateError(f"port must be a whole number from 0 to 65535, got {port!r}")
    problem: OSError | None = None
    for candidate in range(port, min(port + tries, 65536)):
        try:
            family = socket.getaddrinfo(host, candidate, type=socket.SOCK_STREAM)[0][0]
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, candidate))
                return probe.getsockname()[1]
        except socket.gaierror as error:
            raise LimberjackError(f'the viewer cannot listen on "{host}": {error.strerror}') from error
        except OSError as error:
            problem = error
    raise LimberjackError(f'the viewer cannot listen on "{host}" port {port}: {problem}')


class Guard:
    """Decides about every request to a server.

    Args:
        host: what the server listens on.
        port: its port.
        token: the token required; None generates one where the host can be reached from other machines.
    """

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        self.host, self.port = host, port
        if token is None and not is_loopback(host):
            token = secrets.token_urlsafe(24)
        self.token = token
        self.refused = 0
        self.pages: Callable[[str], Page | None] = lambda path: None

    @property
    def url(self) -> str:
        """The address to open, with the token where one is needed."""
        return self.address("")

    def address(self, path: str) -> str:
        """Return the address of a page, with the token where one is needed."""
        name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)
        name = f"[{name}]" if ":" in name else name
        return f"http://{name}:{self.port}/{path}" + (f"?token={self.token}" if self.token else "")

    @property
    def cookie(self) -> str:
        """The name of the cookie that carries the token; ports of one host share their cookies."""
        return f"limberjack_{self.port}"

    def answer(self, path: str, headers: Any) -> tuple[http.HTTPStatus, str] | None:
        """Return why a request is refused, or None.

        Args:
            path: of the request, with its query.
            headers: a mapping with `get_all(name)`, as of the package websockets.
        """
        hosts, origins = headers.get_all("Host"), headers.get_all("Origin")
        if len(hosts) != 1 or not self._known(hosts[0]):
            return http.HTTPStatus.FORBIDDEN, "this host is not what the viewer was opened under"
        socket_asked = any("websocket" in value.lower() for value in headers.get_all("Upgrade"))
        if socket_asked or origins:
            if len(origins) != 1 or origins[0].lower() not in (
                f"http://{hosts[0]}".lower(),
                f"https://{hosts[0]}".lower(),
            ):
                return http.HTTPStatus.FORBIDDEN, "this origin may not speak to the viewer"
        if self.token is not None and not self._has_token(path, headers):
            return http.HTTPStatus.FORBIDDEN, "the token is missing or wrong: open the address the viewer printed"
        return None

    def _known(self, host: str) -> bool:
        try:
            parts = urlsplit(f"//{host}")
            name, port = (parts.hostname or "").lower(), parts.port or 80
        except ValueError:
            return False
        if port != self.port or parts.username is not None or parts.path or parts.query:
            return False
        if name == self.host.lower() or (is_loopback(self.host) and is_loopback(name)):
            return True
        # a server on all interfaces has any name: there the token decides
        return self.host in ("0.0.0.0", "::") and self.token is not None

    def _has_token(self, path: str, headers: Any) -> bool:
        assert self.token is not None
        given = parse_qs(urlsplit(path).query).get("token", [])
        for line in headers.get_all("Cookie"):
            for pair in line.split(";"):
                name, _, value = pair.strip().partition("=")
                if name == self.cookie:
                    given.append(value)
        return any(hmac.compare_digest(word.encode(), self.token.encode()) for word in given)

    # In the server of viser

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Guard the one server that viser starts within the block; raise if it starts none."""
        server: Any = require("websockets.asyncio.server", extra="view")
        original, found = server.serve, []

        def serve(handler: Any, host: Any, port: Any, **options: Any) -> Any:
            if "WebsockServer" not in getattr(handler, "__qualname__", ""):
                return original(handler, host, port, **options)
            found.append(True)
            options["max_size"] = LARGEST_MESSAGE
            options["process_request"] = self._checked(options.get("process_request"), server)
            return original(self._slowed(handler), host, port, **options)

        with _patching:
            server.serve = serve
            try:
                yield
            finally:
                server.serve = original
        if not found:
            raise LimberjackError(
                'this release of viser starts its server in another way: pip install "limberjack[view]"'
            )

    def _checked(self, inner: Callable[..., Any] | None, server: Any) -> Callable[..., Any]:
        """Return the handler of requests before the handshake: a refusal, or viser's answer."""
        structures: Any = require("websockets.datastructures", extra="view")
        messages: Any = require("websockets.http11", extra="view")

        def process(connection: Any, request: Any) -> Any:
            refusal = self.answer(request.path, request.headers)
            if refusal is not None:
                self.refused += 1
                text = refusal[1].encode()
                headers = structures.Headers(**{"Content-Type": "text/plain", "Content-Length": str(len(text))})
                return messages.Response(refusal[0], "Forbidden", headers, text)
            socket_asked = "websocket" in (request.headers.get("Upgrade") or "").lower()
            page = None if socket_asked else self.pages(request.path)
            if page is not None:
                response = _response(page, structures, messages)
            else:
                response = inner(connection, request) if inner is not None else None
            if response is not None:
                response.headers["Content-Security-Policy"] = _POLICY if page is None else _STILL
                response.headers["X-Content-Type-Options"] = "nosniff"
                response.headers["Referrer-Policy"] = "no-referrer"
                if self.token is not None:
                    response.headers["Set-Cookie"] = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
            return response

        return process

    def _slowed(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Return the handler of a connection with its messages limited to the allowed rate."""

        async def handle(connection: Any) -> None:
            receive, bucket = connection.recv, Bucket(MESSAGES_PER_SECOND, _BURST)

            async def recv(*arguments: Any, **options: Any) -> Any:
                message = await receive(*arguments, **options)
                wait = bucket.take(time.monotonic())
                if wait > 0.0:
                    await asyncio.sleep(wait)
                return message

            connection.recv = recv
            await handler(connection)

        return handle


def _response(page: Page, structures: Any, messages: Any) -> Any:
    headers = structures.Headers(**{"Content-Type": page.kind, "Content-Length": str(len(page.content))})
    status, reason = (200, "OK") if page.location is None else (303, "See Other")
    if page.location is not None:
        headers["Location"] = page.location
    return messages.Response(status, reason, headers, page.content)


class Bucket:
    """A token bucket: fills at a rate; an empty one makes its user wait."""

    def __init__(self, rate: float, most: float) -> None:
        self._rate, self._most, self._left, self._then = rate, most, most, time.monotonic()

    def take(self, now: float) -> float:
        """Take one token and return how long to wait for it [s]."""
        self._left = min(self._most, self._left + (now - self._then) * self._rate) - 1.0
        self._then = now
        return max(0.0, -self._left / self._rate)


def close_tunnel(server: Any) -> None:
    """Remove viser's handlers that would open the server to the internet at the request of a page."""
    messages = require("viser._messages", extra="view")
    for name in ("ShareUrlRequest", "ShareUrlDisconnect"):
        kind = getattr(messages, name, None)
        if kind is not None and kind in server._websock_server._incoming_handlers:
            server._websock_server.unregister_handler(kind)
