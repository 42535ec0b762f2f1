"""Who is let in to the viewer: host, origin, token, and what a real server answers over the wire."""

from __future__ import annotations

import contextlib
import http.client
import io

import pytest
import viser
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import limberjack as lj
from limberjack.viewer.guard import LARGEST_MESSAGE, Bucket, Guard, free_port, is_loopback

PROTOCOL = f"viser-v{viser.__version__}"


def asked(guard, host="127.0.0.1:8080", origin="http://127.0.0.1:8080", path="/", cookie=None, upgrade=True):
    """Return the status a request is refused with, or None."""
    headers = Headers()
    for name, value in (("Host", host), ("Origin", origin), ("Cookie", cookie)):
        if value is not None:
            headers[name] = value
    if upgrade:
        headers["Upgrade"] = "websocket"
    refusal = guard.answer(path, headers)
    return None if refusal is None else int(refusal[0])


@pytest.mark.parametrize(
    "request_, status",
    [
        ({}, None),
        ({"host": "localhost:8080", "origin": "http://localhost:8080"}, None),
        ({"host": "[::1]:8080", "origin": "http://[::1]:8080"}, None),
        ({"origin": None, "upgrade": False}, None),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:8081"}, 403),
        ({"origin": "http://127.0.0.1:8080.evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": None}, 403),
        ({"host": "evil.example:8080", "origin": "http://evil.example:8080"}, 403),
        ({"host": "evil.example", "origin": "http://evil.example"}, 403),
        ({"host": "127.0.0.1:9999", "origin": "http://127.0.0.1:9999"}, 403),
        ({"host": "127.0.0.1", "origin": "http://127.0.0.1"}, 403),
        ({"host": None}, 403),
        ({"host": "a@127.0.0.1:8080"}, 403),
        ({"host": "127.0.0.1:port"}, 403),
    ],
)
def test_only_the_own_page_may_speak(request_, status):
    """On the loopback interface every name of it is fine; other hosts, ports and origins are refused."""
    assert asked(Guard("127.0.0.1", 8080), **request_) == status


def test_other_hosts_need_the_token():
    """A server that others can reach makes up a token, puts it into its address, and refuses all without it."""
    guard = Guard("0.0.0.0", 8080)
    assert guard.token and len(guard.token) >= 24 and guard.token in guard.url
    name = {"host": "lab.example:8080", "origin": "http://lab.example:8080"}
    assert asked(guard, **name) == 403
    assert asked(guard, path="/?token=wrong", **name) == 403
    assert asked(guard, cookie=f"{guard.cookie}=wrong", **name) == 403
    assert asked(guard, path=f"/?token={guard.token}", **name) is None
    assert asked(guard, cookie=f"a=b; {guard.cookie}={guard.token}", **name) is None
    assert asked(guard, path=f"/?token={guard.token}", host="lab.example:8080", origin="http://evil.example") == 403
    assert Guard("0.0.0.0", 8080).token != guard.token and Guard("127.0.0.1", 8080).token is None


def test_loopback_addresses_are_known():
    """All of 127/8, ::1 and localhost are this machine; nothing else is."""
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.org", "localhost.evil.example", "")))


def test_a_bucket_lets_the_rate_through():
    """The first burst passes at once; from then on each message waits its share of a second."""
    bucket = Bucket(10.0, 5.0)
    now = bucket._then
    assert [bucket.take(now) for _ in range(5)] == [0.0] * 5
    assert bucket.take(now) == pytest.approx(0.1) and bucket.take(now) == pytest.approx(0.2)
    assert bucket.take(now + 10.0) == 0.0


def test_ports_that_cannot_be_had_are_told():
    """A port in use is passed over; a host that is not ours, or no number, is an error that says so."""
    with pytest.raises(lj.LimberjackError, match="no-such-host.invalid"):
        free_port("no-such-host.invalid", 8080)
    with pytest.raises(lj.LimberjackError, match="203.0.113.7"):
        free_port("203.0.113.7", 8080, tries=2)
    with pytest.raises(lj.StateError, match="port"):
        free_port("127.0.0.1", 70000)
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port("127.0.0.1", port) != port


@contextlib.contextmanager
def served(token=None):
    """Give a guard with a real viser server behind it."""
    guard = Guard("127.0.0.1", free_port("127.0.0.1", 0), token)
    with guard.installed(), contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer("127.0.0.1", guard.port, verbose=False)
    try:
        yield guard, server
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            server.stop()


def fetched(guard, path="/", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", guard.port, timeout=10)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def test_a_real_server_refuses_over_the_wire():
    """Wrong Origin, wrong Host and missing token get 403 from the socket itself; the right ones are let in."""
    with served(token="sesame") as (guard, _):
        url = f"ws://127.0.0.1:{guard.port}/"
        own = f"http://127.0.0.1:{guard.port}"
        cookie = {"Cookie": f"{guard.cookie}=sesame"}
        for origin, extra in (("http://evil.example", cookie), (own, {}), (own, {"Cookie": f"{guard.cookie}=x"})):
            with pytest.raises(InvalidStatus) as refused:
                connect(url, origin=origin, subprotocols=[PROTOCOL], additional_headers=extra, open_timeout=10)
            assert refused.value.response.status_code == 403
        with connect(url, origin=own, subprotocols=[PROTOCOL], additional_headers=cookie, open_timeout=10) as socket:
            assert socket.recv(timeout=10)
        assert guard.refused == 3
        assert fetched(guard)[0].status == 403
        response, body = fetched(guard, "/?token=sesame")
        assert response.status == 200 and b"<html" in body
        assert "HttpOnly" in response.headers["Set-Cookie"] and "SameSite=Strict" in response.headers["Set-Cookie"]
        assert "object-src 'none'" in response.headers["Content-Security-Policy"]
        assert fetched(guard, "/?token=sesame", Host=f"evil.example:{guard.port}")[0].status == 403


@pytest.mark.parametrize(
    "path", ["/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "//etc/passwd"]
)
def test_no_file_of_the_machine_is_served(path):
    """Paths that lead out of the page's own folder are not found."""
    with served() as (guard, _):
        response, body = fetched(guard, path)
        assert response.status == 404 and b"root:" not in body


def test_messages_that_are_too_large_end_the_connection():
    """A message above the limit closes that connection, and the server goes on."""
    with served() as (guard, server):
        url, own = f"ws://127.0.0.1:{guard.port}/", f"http://127.0.0.1:{guard.port}"
        with connect(url, origin=own, subprotocols=[PROTOCOL], max_size=None) as socket:
            with pytest.raises(ConnectionClosed):
                socket.send(b"\0" * (LARGEST_MESSAGE + 1))
                for _ in range(100):
                    socket.recv(timeout=10)
        with connect(url, origin=own, subprotocols=[PROTOCOL], max_size=None) as socket:
            assert socket.recv(timeout=10)


def test_a_server_that_is_not_guarded_is_refused():
    """If viser starts no server through the guard, opening the viewer fails instead of going on unguarded."""
    with pytest.raises(lj.LimberjackError, match="viser"):
        with Guard("127.0.0.1", 8080).installed():
            pass
