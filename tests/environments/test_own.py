"""The documented example of one's own environment, installed as a package would be."""

import importlib
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from macaron.environments import environment, environments, verify
from macaron.environments.bank import sealed
from macaron.errors import ConfigError
from macaron.harness.tools import ToolBox

GUIDE = Path(__file__).parents[2] / "docs/environments.md"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to install into; the environments are found anew before and after."""
    monkeypatch.syspath_prepend(str(tmp_path))
    environments.cache_clear()
    yield tmp_path
    environments.cache_clear()
    importlib.invalidate_caches()


def install(site: Path, module: str, source: str, point: str) -> None:
    (site / f"{module}.py").write_text(source, encoding="utf-8")
    info = site / f"{module}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[macaron.environments]\n{point}\n")
    importlib.invalidate_caches()


def example(number: int = 0) -> str:
    found = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    return str(found[number])


def test_the_example_runs(site: Path) -> None:
    install(site, "reversals", example(), "reversal = reversals:Reversal")
    made = environment("reversal")
    train = [made.sample(random.Random(i), "train") for i in range(50)]
    tasks = [*train, *sealed("reversal", 10, seed=0)]
    assert [s.reward for s in verify(tasks, [t.reference for t in tasks])] == [1.0] * 60
    assert verify(tasks[:1], [""])[0].reward == 0.0
    assert {t.messages[0]["content"] for t in train}.isdisjoint(
        {t.messages[0]["content"] for t in tasks[50:]}
    )


def test_the_example_with_tools_runs(site: Path) -> None:
    install(site, "safes", example(1), "safes = safes:Safes")
    made: Any = environment("safes")
    for task in [made.sample(random.Random(i), "train") for i in range(20)]:
        world = made.world(task)
        box = ToolBox(world.tools())
        notes = [box.run("read_note", {"number": n}) for n in (1, 2, 3, 4)]
        [code] = [n.split()[1] for n in notes if n.split(":")[0] in task.messages[0]["content"]]
        assert world.score("").reward == 0.0
        assert box.call("enter", f'{{"code": {code}}}') == "open"
        assert world.score("").reward == 1.0
        wrong = made.world(task)
        assert ToolBox(wrong.tools()).call("enter", '{"code": 7}') == "locked"
        assert ToolBox(wrong.tools()).call("enter", f'{{"code": {code}}}') == "locked"
        assert wrong.score("").reward == 0.0
    assert box.call("read_note", '{"number": 5}') == "Error: there are 4 notes"
    assert verify([task], ["open"])[0].reward == 0.0


def test_one_that_cannot_be_loaded_is_one_line(site: Path) -> None:
    install(site, "broken_one", "raise ValueError('no data')", "broken = broken_one:Broken")
    with pytest.raises(ConfigError, match=r"broken_one:Broken: cannot load.*no data"):
        environments()


def test_a_name_that_is_taken_is_refused(site: Path) -> None:
    source = example().replace('name = "reversal"', 'name = "chat"')
    install(site, "takes_a_name", source, "other = takes_a_name:Reversal")
    with pytest.raises(ConfigError, match="'chat' is taken"):
        environments()
