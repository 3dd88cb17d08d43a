"""Exactly one report for each receipt, whatever becomes of the exchange: on plain ASGI, message by message."""

import asyncio
from types import SimpleNamespace

import pytest

from bascule.protocol.delivery import HttpDeliveries, scope_of, watched
from kit.nodes import Receipts

pytestmark = pytest.mark.anyio

START = {"type": "http.response.start", "status": 200, "headers": []}
LAST = {"type": "http.response.body", "body": b"x"}
MORE = {"type": "http.response.body", "body": b"x", "more_body": True}
REQUEST = {"type": "http.request", "body": b"", "more_body": False}
GONE = {"type": "http.disconnect"}


class Exchange:
    """One exchange: what is received comes from `incoming`, what is sent is kept; sending may be made to fail."""

    def __init__(self):
        self.scope, self.sent, self.incoming = {"type": "http"}, [], asyncio.Queue()
        self.receipts = [Receipts(), Receipts()]
        self.ctx = SimpleNamespace(request=SimpleNamespace(scope=self.scope))
        self.failure = None

    async def run(self, *steps):
        async def app(scope, receive, send):
            for receipt in self.receipts:
                HttpDeliveries().expect(self.ctx, receipt)
            for step in steps:
                if callable(step):
                    step()
                elif step is GONE or step is REQUEST:
                    self.incoming.put_nowait(step)
                    assert await receive() is step
                else:
                    await send(step)

        await watched(app, self.scope, self.incoming.get, self.send)

    async def send(self, message):
        if self.failure is not None:
            raise self.failure
        self.sent.append(message)

    @property
    def reports(self):
        first, second = (receipt.reports for receipt in self.receipts)
        assert first == second
        return first


@pytest.fixture
def exchange():
    return Exchange()


@pytest.mark.parametrize(
    ("steps", "report"),
    [
        ((START, LAST), "delivered"),
        ((REQUEST, START, LAST), "delivered"),
        ((START, MORE, MORE, LAST), "delivered"),
        ((START, LAST, GONE), "delivered"),
        ((GONE, START, LAST), "undelivered: disconnected"),
        ((START, GONE, LAST), "undelivered: disconnected"),
        ((START, MORE, GONE), "undelivered: disconnected"),
        ((START, MORE, GONE, LAST), "undelivered: disconnected"),
        ((START, MORE), "undelivered: not sent"),
        ((START,), "undelivered: not sent"),
        ((), "undelivered: not sent"),
    ],
)
async def test_each_receipt_is_told_once_what_became_of_the_answer(exchange, steps, report):
    await exchange.run(*steps)
    assert exchange.reports == [report]


async def test_everything_is_handed_on_unchanged(exchange):
    await exchange.run(START, MORE, LAST)
    assert exchange.sent == [START, MORE, LAST]


async def test_an_answer_that_could_not_be_sent_is_undelivered_and_the_failure_goes_on(exchange):
    exchange.failure = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        await exchange.run(START, LAST)
    assert exchange.reports == ["undelivered: not sent"]


async def test_a_cancelled_exchange_is_undelivered(exchange):
    standing = asyncio.Event()

    async def app(scope, receive, send):
        for receipt in exchange.receipts:
            HttpDeliveries().expect(exchange.ctx, receipt)
        await send(START)
        standing.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(watched(app, exchange.scope, exchange.incoming.get, exchange.send))
    await standing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert exchange.reports == ["undelivered: not sent"]


async def test_receipts_of_two_exchanges_are_kept_apart():
    one, other = Exchange(), Exchange()
    await asyncio.gather(one.run(START, LAST), other.run(GONE, START, LAST))
    assert (one.reports, other.reports) == (["delivered"], ["undelivered: disconnected"])


async def test_an_exchange_without_an_answer_of_ours_settles_nothing(exchange):
    exchange.receipts, first = [], exchange.receipts[0]
    await exchange.run(START, LAST)
    assert first.reports == []


def test_what_did_not_come_over_http_has_an_empty_scope():
    assert scope_of(SimpleNamespace(request=None)) == {}
