"""Fixtures every test may use; anything about one part lives in that part's own conftest."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend():
    """Asyncio is the only loop the product runs on."""
    return "asyncio"
