import pytest

from bascule.node.terms import Completed
from kit.arrangements import ARRANGEMENTS, arranged
from kit.peers import call, words

pytestmark = pytest.mark.anyio


@pytest.fixture(params=ARRANGEMENTS)
async def there(request, tmp_path):
    async with arranged(request.param, tmp_path) as made:
        yield made


@pytest.mark.parametrize("depth", [60, 61, 62, 63, 64, 65, 66, 150, 400])
async def test_deep(there, depth):
    value = "end"
    for _ in range(depth):
        value = {"a": value}
    there.work.answer = Completed(value)
    result = await call(there.peer, "echo", {"text": "x"})
    print(depth, result.get("isError"), words(result)[:90])
    assert not result.get("isError"), words(result)[:200]
