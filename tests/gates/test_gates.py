"""Each gate passes and refuses as its row says, and stands in its place (docs/architecture.md, the HTTP boundary)."""

import itertools

import pytest

from kit.gates import boundary_on_a_socket
from kit.http import request, wire

pytestmark = pytest.mark.anyio


async def exchange(tmp_path, data, *, head=False, **controller):
    async with boundary_on_a_socket(tmp_path, **controller) as made, wire(made.port) as line:
        await line.say(data)
        return await line.hear(head=head)


async def test_a_sound_request_passes_every_gate_and_its_bytes_go_on_unchanged(tmp_path):
    body = b'{"b": 1.0, "a":  "\xc3\xbc"}'
    answer = await exchange(tmp_path, request(body=body))
    assert (answer.status, answer.body) == (200, b"owner " + body)


# What each gate refuses, in the order of the gates. A pair of neighbours is told apart by breaking both at once.
BROKEN = [
    ("path", {"target": "/elsewhere"}, 404),
    ("peer", {"tailscale_funnel_request": "1"}, 403),
    ("origin", {"origin": "https://evil.example"}, 403),
    ("browser", {"sec_fetch_site": "cross-site"}, 403),
    ("host", {"host": "evil.example"}, 421),
    ("bearer", {"authorization": "Bearer bad"}, 401),
    ("method", {"method": "PUT"}, 405),
    ("media type", {"content_type": "text/plain"}, 415),
    ("accept", {"accept": "application/json"}, 406),
    ("body", {"content_length": "4194305"}, 413),
]


@pytest.mark.parametrize(("gate", "broken", "status"), BROKEN, ids=[row[0] for row in BROKEN])
async def test_each_gate_refuses_with_its_status_as_a_json_rpc_error_and_closes(tmp_path, gate, broken, status):
    answer = await exchange(tmp_path, request(**broken))
    assert answer.status == status
    assert answer.json()["id"] is None
    assert answer.error["message"]
    assert answer.closed


NEIGHBOURS = list(itertools.pairwise(BROKEN))


@pytest.mark.parametrize(("first", "second"), NEIGHBOURS, ids=[f"{a[0]} before {b[0]}" for a, b in NEIGHBOURS])
async def test_of_two_broken_things_the_earlier_gate_answers(tmp_path, first, second):
    answer = await exchange(tmp_path, request(**{**second[1], **first[1]}))
    words = (await exchange(tmp_path, request(**first[1]))).error["message"]
    assert (answer.status, answer.error["message"]) == (first[2], words)


@pytest.mark.parametrize(
    "target", ["//mcp", "/mcp/", "/%6dcp", "/./mcp", "/MCP", "http://127.0.0.1/mcp", "/", "/mcp%00"]
)
async def test_paths_are_compared_raw(tmp_path, target):
    assert (await exchange(tmp_path, request(target=target))).status == 404


async def test_a_query_is_no_part_of_the_path(tmp_path):
    assert (await exchange(tmp_path, request(target="/mcp?x=1"))).status == 200


@pytest.mark.parametrize("given", ["a", "A.b:c_"[:5] + "-9", "x" * 96])
async def test_a_sound_trace_id_is_kept_and_echoed(tmp_path, given):
    answer = await exchange(tmp_path, request(x_request_id=given))
    assert answer.headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "x" * 97, "a b", "a/b", "é", ["a", "b"]])
async def test_any_other_trace_id_is_replaced_on_refusals_as_well(tmp_path, given):
    answer = await exchange(tmp_path, request(x_request_id=given, authorization="Bearer bad"))
    assert answer.status == 401
    assert len(answer.headers["x-request-id"]) == 32


@pytest.mark.parametrize("origin", ["null", "http://localhost", "https://evil.example", "http://127.0.0.1:8765"])
async def test_without_entries_every_origin_is_refused(tmp_path, origin):
    assert (await exchange(tmp_path, request(origin=origin))).status == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://console.example", 200),
        ("https://console.example:444", 403),
        ("http://console.example", 403),
        ("http://localhost:3000", 200),
        ("http://localhost", 200),
        ("http://localhost:x.evil.com", 403),
        ("http://localhost.evil.com", 403),
        ("http://localhost:*", 403),
    ],
)
async def test_listed_origins_are_matched_whole(tmp_path, origin, status):
    answer = await exchange(tmp_path, request(origin=origin), origins=["https://console.example", "http://localhost:*"])
    assert answer.status == status


async def test_sec_fetch_mode_alone_is_no_browser(tmp_path):
    assert (await exchange(tmp_path, request(sec_fetch_mode="cors"))).status == 200


@pytest.mark.parametrize("sign", ["sec_fetch_site", "sec_fetch_dest", "sec_fetch_user", "referer"])
async def test_what_only_browsers_send_is_refused(tmp_path, sign):
    assert (await exchange(tmp_path, request(**{sign: "x"}))).status == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:65535", "[::1]", "[::1]:8765"])
async def test_loopback_names_pass_with_any_port(tmp_path, host):
    assert (await exchange(tmp_path, request(host=host))).status == 200


@pytest.mark.parametrize(
    "host",
    ["", "localhost.", "127.0.0.2", "::1", "[::1]junk", "127.0.0.1:", "localhost:0", "localhost:65536", "127.0.0.1:evil.com",
     "127.0.0.1.evil.com", "a@localhost", "localhost,evil.com", "localhost:80:80"],
)  # fmt: skip
async def test_other_hosts_are_misdirected_and_the_setting_is_named(tmp_path, host):
    answer = await exchange(tmp_path, request(host=host))
    assert answer.status == 421
    assert "[controller] hosts" in answer.error["message"]


async def test_no_host_and_two_hosts_are_misdirected(tmp_path):
    assert (await exchange(tmp_path, request(drop=("host",)))).status == 421
    assert (await exchange(tmp_path, request(host=["localhost", "localhost"]))).status == 421


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("gpu.example", 200),
        ("gpu.example:444", 200),
        ("GPU.example", 200),
        ("tls.example:8443", 200),
        ("tls.example", 421),
    ],
)
async def test_listed_hosts_pass_and_a_port_in_the_entry_must_match(tmp_path, host, status):
    assert (await exchange(tmp_path, request(host=host), hosts=["gpu.example", "tls.example:8443"])).status == status


@pytest.mark.parametrize(
    "authorization",
    ["", "good", "Basic good", "Bearergood", "Bearer", "Bearer good good", ["Bearer good", "Bearer good"]],
)
async def test_anything_but_one_bearer_token_is_unauthorized_with_a_challenge(tmp_path, authorization):
    answer = await exchange(tmp_path, request(authorization=authorization))
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE", "PATCH"])
async def test_without_a_token_every_method_is_unauthorized(tmp_path, method):
    answer = await exchange(tmp_path, request(method=method, drop=("authorization",)), head=method == "HEAD")
    assert answer.status == 401


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "DELETE", "PUT"])
async def test_other_methods_are_told_what_is_allowed(tmp_path, method):
    answer = await exchange(tmp_path, request(method=method))
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=UTF-8", 200),
        ('application/json;charset="utf-8"', 200),
        ("application/json; charset=latin-1", 415),
        ("application/jsonp", 415),
        ("application/vnd.x+json", 415),
        ("", 415),
        (["application/json", "application/json"], 415),
    ],
)
async def test_only_json_in_utf8_is_taken(tmp_path, content_type, status):
    assert (await exchange(tmp_path, request(content_type=content_type))).status == status


async def test_a_content_coding_is_refused_and_identity_is_none(tmp_path):
    assert (await exchange(tmp_path, request(content_encoding="gzip"))).status == 415
    assert (await exchange(tmp_path, request(content_encoding="identity"))).status == 200


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream;q=0.5, application/json", "*/*;q=0.1"])
async def test_both_forms_or_anything_must_be_accepted(tmp_path, accept):
    assert (await exchange(tmp_path, request(accept=accept))).status == 200


async def test_health_needs_no_token_and_readiness_does_and_tells_the_truth(tmp_path):
    async with boundary_on_a_socket(tmp_path) as made:
        async with wire(made.port) as line:
            await line.say(
                request(method="GET", target="/healthz", body=b"", drop=("authorization", "content-type", "accept"))
            )
            answer = await line.hear()
            assert (answer.status, answer.body) == (200, b"")
            await line.say(request(method="HEAD", target="/readyz", body=b""))
            assert (await line.hear(head=True)).status == 200
            made.ready[0] = False
            await line.say(request(method="GET", target="/readyz", body=b""))
            answer = await line.hear()
            assert (answer.status, answer.json()) == (503, {"ready": False})
            await line.say(request(method="GET", target="/readyz", body=b"", authorization="Bearer bad"))
            assert (await line.hear()).status == 401
        async with wire(made.port) as line:
            await line.say(request(target="/healthz"))
            answer = await line.hear()
            assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_while_draining_a_sound_request_is_told_to_come_back_and_a_broken_one_what_is_broken(tmp_path):
    async with boundary_on_a_socket(tmp_path) as made:
        made.draining.begin()
        async with wire(made.port) as line:
            await line.say(request())
            answer = await line.hear()
            assert (answer.status, answer.closed) == (503, True)
            assert "retry-after" in answer.headers
        async with wire(made.port) as line:
            await line.say(request(authorization="Bearer bad"))
            assert (await line.hear()).status == 401


async def test_a_private_bind_takes_private_peers_and_loopback_only_loopback():
    from bascule.gates.peer import is_near

    near = ["127.0.0.1", "::1", "::ffff:127.0.0.1"]
    private = ["10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd7a:115c:a1e0::1", "::ffff:10.0.0.1"]
    far = ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2001:db8::1", "169.254.1.1", "", "nonsense"]
    assert all(is_near(host, private=False) for host in near)
    assert not any(is_near(host, private=False) for host in private + far)
    assert all(is_near(host, private=True) for host in near + private)
    assert not any(is_near(host, private=True) for host in far)
