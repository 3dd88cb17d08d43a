"""Where a bridge may connect, whom it expects there, and where its token comes from."""

import asyncio
import os

import httpcore2
import pytest

from bascule.credentials import CredentialError, FileToken, VariableToken
from bascule.protocol.addresses import AddressRefusedError, CheckedBackend, UrlError, is_near, read_url
from bascule.protocol.expectation import ExpectationError, parse

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:8765", "http://127.0.0.1:8765/mcp"),
        ("http://127.0.0.1:8765/", "http://127.0.0.1:8765/mcp"),
        ("https://gpu.example/machine/mcp", "https://gpu.example/machine/mcp"),
        ("http://[::1]:1/x", "http://[::1]:1/x"),
        ("http://localhost", "http://localhost/mcp"),
    ],
)
def test_a_url_is_absolute_and_an_empty_path_means_mcp(text, url):
    assert read_url(text).url == url


@pytest.mark.parametrize(
    "text",
    ["", "127.0.0.1:8765", "/mcp", "ftp://x/", "http://", "http://u:p@x/", "http://x/?a=1", "http://x/#a", "http://x:0/", "http://x:99999/",
     "http://x:a/", "http://x y/", "http://ü/", "http://x/" + "a" * 5000],
)  # fmt: skip
def test_any_other_url_is_refused_in_words_that_hold_no_secret(text):
    with pytest.raises(UrlError) as caught:
        read_url(text)
    assert "u:p" not in str(caught.value)


class Recording(httpcore2.AsyncNetworkBackend):
    def __init__(self, refuse=()):
        self.asked, self.refuse = [], refuse

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):  # noqa: ASYNC109 - the interface's
        self.asked.append(host)
        if host in self.refuse:
            raise httpcore2.ConnectError("refused")
        return httpcore2.AsyncMockStream([])


def resolving(*answers):
    left = list(answers)

    async def resolve(_host, _port):
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


async def test_every_address_of_every_new_connection_is_checked_so_a_rebound_name_is_refused():
    connector = Recording()
    backend = CheckedBackend(resolver=resolving(["10.0.0.1"], ["8.8.8.8"]), connector=connector)
    await backend.connect_tcp("box.example", 1)
    with pytest.raises(AddressRefusedError, match=r"8\.8\.8\.8"):
        await backend.connect_tcp("box.example", 1)
    assert connector.asked == ["10.0.0.1"], "the connection goes to the checked address, not to the name again"


async def test_one_far_address_among_near_ones_refuses_the_name():
    connector = Recording()
    with pytest.raises(AddressRefusedError):
        await CheckedBackend(resolver=resolving(["127.0.0.1", "1.1.1.1"]), connector=connector).connect_tcp("x", 1)
    assert connector.asked == []


async def test_the_next_address_is_tried_when_one_refuses():
    connector = Recording(refuse={"::1"})
    await CheckedBackend(resolver=resolving(["::1", "127.0.0.1"]), connector=connector).connect_tcp("localhost", 1, 5)
    assert connector.asked == ["::1", "127.0.0.1"]


@pytest.mark.parametrize(
    ("address", "near"),
    [("127.0.0.1", True), ("::1", True), ("10.1.1.1", True), ("100.64.1.1", True), ("fd00::1", True), ("::ffff:10.0.0.1", True),
     ("8.8.8.8", False), ("::ffff:8.8.8.8", False), ("169.254.169.254", False), ("fe80::1", False), ("0.0.0.0", False), ("x", False)],
)  # fmt: skip
def test_near_is_loopback_or_private_and_never_link_local(address, near):
    assert is_near(address) is near


@pytest.mark.parametrize(
    ("texts", "name", "version", "fits"),
    [
        ((), "any", "0.1.0", True), ((), "any", "0.1.1", False), (("a",), "a", "0.1.0", True), (("a",), "b", "0.1.0", False),
        (("a@1.4.2",), "a", "1.4.2", True), (("a@1.4,1.5",), "a", "1.5", True), (("a@>=1.4,<1.6",), "a", "1.5.9", True),
        (("a@>=1.4,<1.6",), "a", "1.6", False), (("*@1",), "z", "1", True), (("a@*",), "a", "x", True), (("a@1", "b@2"), "b", "2", True),
        (("a@>=1",), "a", "nonsense", False), (("a@1",), None, "1", False), (("a@1",), "a", 1, False),
    ],
)  # fmt: skip
def test_an_expectation_fits_exactly_what_it_says(texts, name, version, fits):
    assert parse(texts, own_version="0.1.0").check(name, version).fits is fits


@pytest.mark.parametrize("text", ["", "@1", "a@", "a@>=x", "a@1,>=2", "a" * 500, "a@1\n"])
def test_an_expectation_that_says_nothing_is_refused(text):
    with pytest.raises(ExpectationError):
        parse([text, text] if text == "a@1\n" and not text.strip() else [text.replace("\n", "\x00")])


# -- tokens --

TOKEN = "bsc_owner_" + "x" * 43


def test_a_variable_is_looked_up_anew_each_time():
    environ = {"T": TOKEN}
    source = VariableToken("T", environ)
    assert source() == TOKEN
    environ["T"] = f" {TOKEN}2\n"
    assert source() == TOKEN + "2"


@pytest.mark.parametrize(
    "value", [None, "", "  ", "${T}", "$T", "${T:-secret-default}", "%T%", "{env:T}", "two words", "a\0b", "x" * 5000]
)
def test_a_variable_without_a_token_is_said_by_name_and_never_by_value(value):
    with pytest.raises(CredentialError) as caught:
        VariableToken("T", {} if value is None else {"T": value})()
    assert "T" in str(caught.value)
    assert "secret-default" not in str(caught.value)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "token"
    path.touch(mode=0o600)
    return path


def test_a_file_is_read_again_when_it_changed(file):
    file.write_text(TOKEN + "\n")
    source = FileToken(file)
    assert source() == TOKEN
    file.write_text(TOKEN + "y\n")
    os.utime(file, ns=(1, 1))
    assert source() == TOKEN + "y"


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\xef\xbb\xbf" + TOKEN.encode(), b"a\nb\n", b"${TOKEN}", b"\xff\xfea", b"a b"]
)
def test_a_file_without_one_token_is_refused_in_words(file, content):
    file.write_bytes(content)
    with pytest.raises(CredentialError):
        FileToken(file)()


def test_a_file_that_others_can_read_is_refused_with_the_command_that_mends_it(file):
    file.write_text(TOKEN)
    file.chmod(0o644)
    with pytest.raises(CredentialError, match="chmod 600") as caught:
        FileToken(file)()
    assert TOKEN not in str(caught.value)
    file.chmod(0o600)
    assert FileToken(file)() == TOKEN


async def test_a_fifo_or_folder_in_its_place_does_not_stop_the_process(tmp_path):
    os.mkfifo(tmp_path / "fifo", 0o600)
    for name in ("fifo", "missing", "."):
        with pytest.raises(CredentialError):
            await asyncio.wait_for(asyncio.to_thread(FileToken(tmp_path / name)), 5)


def test_tokens_are_in_no_repr(file):
    file.write_text(TOKEN)
    source = FileToken(file)
    source()
    assert TOKEN not in repr(source) + repr(VariableToken("T", {"T": TOKEN}))
