"""Where a controller may listen, and which words refuse the rest."""

import pytest

from bascule.binding import BindRefusedError, Reach, assess


def resolving(*addresses):
    return lambda _name: list(addresses)


@pytest.mark.parametrize(
    ("host", "reach"),
    [("127.0.0.1", Reach.LOOPBACK), ("::1", Reach.LOOPBACK), ("[::1]", Reach.LOOPBACK), ("127.0.0.2", Reach.LOOPBACK),
     ("::ffff:127.0.0.1", Reach.LOOPBACK), ("10.0.0.1", Reach.PRIVATE), ("192.168.1.2", Reach.PRIVATE), ("172.16.3.4", Reach.PRIVATE),
     ("100.100.1.1", Reach.PRIVATE), ("fd7a:115c:a1e0::1", Reach.PRIVATE), ("::ffff:10.0.0.1", Reach.PRIVATE)],
)  # fmt: skip
def test_loopback_and_private_addresses_pass(host, reach):
    bind = assess(host, 8765)
    assert bind.reach is reach
    assert bind.addresses[0][1] == 8765


@pytest.mark.parametrize(
    "host",
    ["", "0", "0.0.0.0", "::", "[::]", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "172.32.0.1", "100.128.0.1"],
)
def test_public_addresses_need_the_flag_and_the_words_name_it(host):
    with pytest.raises(BindRefusedError, match="--public-bind"):
        assess(host, 1)
    assert assess(host, 1, public=True).reach is Reach.PUBLIC


@pytest.mark.parametrize(
    "host",
    [
        "169.254.1.1",
        "224.0.0.1",
        "240.0.0.1",
        "192.0.2.1",
        "203.0.113.9",
        "fe80::1",
        "ff02::1",
        "2001:db8::1",
        "0.0.0.5",
    ],
)
def test_addresses_no_controller_is_meant_for_are_refused_even_with_the_flag(host):
    for public in (False, True):
        with pytest.raises(BindRefusedError, match="never bound"):
            assess(host, 1, public=public)


def test_localhost_is_every_loopback_address_it_resolves_to():
    bind = assess("localhost", 1, resolver=resolving("127.0.0.1", "::1"))
    assert bind.reach is Reach.LOOPBACK
    assert [address[0] for address in bind.addresses] == ["127.0.0.1", "::1"]


def test_a_name_is_judged_by_every_address_and_bound_by_address():
    with pytest.raises(BindRefusedError, match="--public-bind"):
        assess("mixed.example", 1, resolver=resolving("10.0.0.1", "8.8.8.8"))
    assert assess("box.lan", 1, resolver=resolving("10.0.0.1")).addresses == (("10.0.0.1", 1),)
    assert assess("mixed.lan", 1, resolver=resolving("127.0.0.1", "10.0.0.1")).reach is Reach.PRIVATE


def test_a_name_that_leads_nowhere_is_refused_in_words():
    def failing(_name):
        raise OSError("no such name")

    for resolver in (failing, resolving()):
        with pytest.raises(BindRefusedError, match="name one"):
            assess("nowhere.example", 1, resolver=resolver)
