"""Which revisions are served through which opening, and the exact refusal of the others (decision 4)."""

import pytest
from mcp_types import version

from bascule.identity import Caller
from bascule.node.terms import Cause, Completed
from bascule.protocol.server import NodeServer
from bascule.protocol.versions import INITIALIZE_ERA, MODERN, refuse_initialize, unserved_opening
from kit.memory import raw_peer
from kit.nodes import ScriptedNode
from kit.peers import OURS, PREFIX, ask, call, enveloped, words

pytestmark = pytest.mark.anyio

SUPPORTED = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


class NoDeliveries:
    def expect(self, ctx, receipt):
        return


def server(**other):
    node = ScriptedNode()
    node.does("greet", Completed("hello"))
    given = {
        "name": "box",
        "version": "1.2.3",
        "caller_of": lambda _ctx: Caller("alice"),
        "deliveries": NoDeliveries(),
        "if_dropped": Cause.CANCELLED,
    } | other
    return NodeServer(node, **given)


def hello(requested, **other):
    return {"protocolVersion": requested, "capabilities": {}, "clientInfo": OURS} | other


def test_the_revisions_are_all_that_the_sdk_knows():
    assert version.HANDSHAKE_PROTOCOL_VERSIONS == INITIALIZE_ERA == tuple(SUPPORTED)
    assert version.MODERN_PROTOCOL_VERSIONS == (MODERN,) == ("2026-07-28",)


@pytest.mark.parametrize("requested", SUPPORTED)
async def test_every_initialize_revision_is_spoken_as_requested(requested):
    async with raw_peer(server(), "legacy", open_it=False) as peer:
        answer = await ask(peer, "initialize", hello(requested))
        assert answer["result"]["protocolVersion"] == requested
        assert answer["result"]["serverInfo"] == {"name": "box", "version": "1.2.3"}
        await peer.notify("notifications/initialized", {})
        assert words(await call(peer, "greet")) == "hello"


@pytest.mark.parametrize("requested", ["2026-07-28", "2099-01-01", "garbage", "", "2025-11-25 "])
async def test_another_version_is_refused_through_initialize_with_the_exact_words(requested):
    async with raw_peer(server(), "legacy", open_it=False) as peer:
        answer = await ask(peer, "initialize", hello(requested))
        assert "result" not in answer
        assert answer["error"] == {
            "code": -32022,
            "message": f"Protocol version '{requested}' is not available through the initialize handshake.",
            "data": {"supported": SUPPORTED, "requested": requested},
        }


async def test_after_a_refusal_the_client_may_open_with_a_version_that_is_served():
    async with raw_peer(server(), "legacy", open_it=False) as peer:
        await ask(peer, "initialize", hello("2099-01-01"))
        assert (await ask(peer, "tools/list"))["error"]["code"] == -32602
        assert (await ask(peer, "initialize", hello("2025-06-18")))["result"]["protocolVersion"] == "2025-06-18"
        assert words(await call(peer, "greet")) == "hello"


@pytest.mark.parametrize("requested", ["2026-07-28", "2099-01-01"])
async def test_where_the_owner_wants_it_the_newest_initialize_revision_is_offered_instead(requested):
    async with raw_peer(server(legacy_fallback="offer"), "legacy", open_it=False) as peer:
        answer = await ask(peer, "initialize", hello(requested))
        assert answer["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("requested", [None, 7, [], {}, True])
async def test_a_version_that_is_no_text_is_a_malformed_message(requested):
    async with raw_peer(server(), "legacy", open_it=False) as peer:
        answer = await ask(peer, "initialize", hello(requested))
        assert answer["error"]["code"] == -32602


async def test_initialize_without_params_is_a_malformed_message():
    async with raw_peer(server(), "legacy", open_it=False) as peer:
        assert (await ask(peer, "initialize", {}))["error"]["code"] == -32602


@pytest.mark.parametrize("requested", ["2025-06-18", "2025-11-25", "2099-01-01"])
async def test_a_second_initialize_is_refused_and_changes_nothing(requested):
    async with raw_peer(server(), "legacy") as peer:
        answer = await ask(peer, "initialize", hello(requested))
        assert answer["error"] == {"code": -32600, "message": "This connection is initialized already"}
        assert words(await call(peer, "greet")) == "hello"


async def test_a_2026_07_28_connection_needs_no_handshake_and_takes_none():
    async with raw_peer(server(), "modern") as peer:
        assert words(await call(peer, "greet")) == "hello"
        answer = await ask(peer, "initialize", hello("2025-11-25"))
        assert answer["error"]["code"] == -32022
        assert answer["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}


async def test_an_unknown_revision_in_the_envelope_is_refused_with_what_is_served():
    async with raw_peer(server(), "legacy", open_it=False) as peer:
        params = enveloped({"name": "greet", "_meta": {PREFIX + "protocolVersion": "2027-01-01"}})
        answer = await ask(peer, "tools/call", params)
        assert answer["error"]["code"] == -32022
        assert answer["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2027-01-01"}


async def test_discover_names_the_server_and_what_this_opening_serves():
    async with raw_peer(server(instructions="Ask nicely."), "modern") as peer:
        answer = (await ask(peer, "server/discover"))["result"]
        assert answer["supportedVersions"] == ["2026-07-28"]
        assert answer["_meta"][PREFIX + "serverInfo"] == {"name": "box", "version": "1.2.3"}
        assert answer["instructions"] == "Ask nicely."
        assert answer["resultType"] == "complete"


@pytest.mark.parametrize("requested", ["x" * 5000, "ü" * 65])
def test_a_version_is_said_back_only_so_far(requested):
    refusal = refuse_initialize(requested).error
    assert refusal.data["requested"] == requested[:64]
    assert len(refusal.message) < 200
    assert len(unserved_opening(requested)["message"]) < 300
