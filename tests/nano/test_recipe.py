"""The recipe: a corpus that is the same everywhere, weights on the right tokens, a schedule."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from macaron.environments import environments
from macaron.environments.routing_set import whole
from macaron.hcp.document import load_hcp
from models.nano.recipe.corpus import MIX, PROMPT_WEIGHT, Example, batches, encode, exchange
from models.nano.recipe.measure import wilson
from models.nano.recipe.optimizer import MuonAdamW, clip_, share_of_peak
from models.nano.recipe.turns import PretrainingTurns

ROOT = Path(__file__).parents[2]
BASE = ROOT / "models/nano"

DIGEST = """
import hashlib
from models.nano.recipe.corpus import exchange
print(hashlib.sha256(repr([exchange(5, n) for n in range(400)]).encode()).hexdigest())
"""


def test_the_corpus_is_the_same_in_every_process():
    # An iteration over a set once made the agent's share of the corpus differ between processes.
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_no_sealed_prompt_is_in_the_corpus():
    import random

    seen = {item.messages for item in map(_frozen, range(3000))}
    rng = random.Random(3)
    for environment in (*environments().values(), PretrainingTurns()):
        for _ in range(200):
            task = environment.sample(rng, "sealed")
            assert tuple(m["content"] for m in task.messages) not in seen


def _frozen(number: int):
    item = exchange(1, number)
    return replace(item, messages=tuple(m["content"] for m in item.messages))


def test_no_held_out_turn_to_route_was_said_in_pretraining():
    """Whatever it was said for: 20,000 of the corpus' exchanges against the whole set."""
    said = {m["content"] for n in range(20_000) for m in exchange(1, n).messages}
    held = {t.messages[0]["content"] for p, c, ts in whole() if p != "train" for t in ts}
    assert held.isdisjoint(said)


def test_families_have_their_shares():
    count = Counter(exchange(2, n).family for n in range(2000))
    assert sum(MIX.values()) == pytest.approx(1)
    assert all(count[f] / 2000 == pytest.approx(share, abs=0.035) for f, share in MIX.items())


def test_the_response_weighs_one_the_prompt_a_tenth_and_padding_nothing():
    examples = [Example("a", [7, 8, 9, 1], 2), Example("b", [7, 8, 9, 9, 9, 1], 3)]
    (ids, weights), *rest = batches(examples, micro=2, pad=0)
    assert not rest
    assert ids.tolist() == [[7, 8, 9, 1, 0, 0], [7, 8, 9, 9, 9, 1]]
    p = PROMPT_WEIGHT
    assert weights.flatten().tolist() == pytest.approx([0, p, 1, 1, 0, 0, 0, p, p, 1, 1, 1])


def test_an_example_is_the_harness_prompt_and_an_ended_answer():
    from transformers import AutoTokenizer

    tokenizer, hcp = AutoTokenizer.from_pretrained(BASE), load_hcp(ROOT / "contracts/hcp/nano.toml")
    for number in range(60):
        item = exchange(3, number)
        example = encode(tokenizer, hcp, item)
        head = tokenizer.decode(example.ids[: example.response])
        system = hcp.specialists[item.specialist].system
        system = hcp.router.system if item.family == "routing" else system
        assert head.startswith(f"<|system|>{system}<|end|>")
        assert head.endswith(f"{item.messages[-1]['content']}<|end|><|assistant|>")
        assert tokenizer.decode(example.ids[example.response :]) == f"{item.answer}<|end|>"


def test_the_schedule_warms_up_stays_and_comes_down():
    rates = [share_of_peak(s, 1000, 10, 0.4, 0.02) for s in range(1000)]
    assert rates[0] == pytest.approx(0.1)
    assert set(rates[9:400]) == {1.0}
    assert rates[700] == pytest.approx(0.02 + 0.98 * 0.5)
    assert rates[-1] == pytest.approx(0.02, abs=0.002)


def test_one_step_moves_every_parameter():
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.ModuleDict(
        {"embed": nn.Embedding(4, 8), "up": nn.Linear(8, 8), "norm": nn.LayerNorm(8)}
    )
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    model["norm"](model["up"](model["embed"](torch.arange(4)))).pow(3).sum().backward()
    norm = clip_([p.grad for p in model.parameters()], 1.0)
    after = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    assert float(after) == pytest.approx(min(norm, 1.0), rel=1e-4)
    MuonAdamW(model, 1e-2).step(0.5)
    assert all(not torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert all(p.grad is None for p in model.parameters())


def test_wilson_is_inside_zero_and_one_and_holds_the_share():
    for right in range(21):
        low, high = wilson(right, 20)
        assert 0 <= low <= right / 20 + 1e-12
        assert right / 20 - 1e-12 <= high <= 1


@pytest.mark.full
def test_pretraining_writes_the_same_loadable_base_twice(tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from models.nano.recipe.pretrain import Recipe, pretrain

    recipe = replace(Recipe(), steps=2, batch=8, tokenizer_texts=2000)
    for name in ("one", "two"):
        pretrain(recipe, tmp_path / name)
    files = sorted(file.name for file in (tmp_path / "one").iterdir())
    assert files == sorted(file.name for file in BASE.iterdir() if file.name in files)
    assert all(
        (tmp_path / "one" / f).read_bytes() == (tmp_path / "two" / f).read_bytes() for f in files
    )
    assert len(AutoTokenizer.from_pretrained(tmp_path / "one")) == 768
    AutoModelForCausalLM.from_pretrained(tmp_path / "one")
