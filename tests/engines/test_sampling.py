"""What is sampled, and with which probability, does not depend on how it was computed."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from macaron.engines.base import Completion, SampleParams
from macaron.engines.sampler import nucleus
from macaron.errors import ConfigError

PROMPTS = [[5, 6, 7], [9, 8, 7, 6, 5, 4], [11] * 10, [3]]
PARAMS = SampleParams(max_tokens=12, temperature=1.0, seed=3, stop_ids=tuple(range(40)))


def logprobs_of(
    engine: Any, prompt: Sequence[int], response: Sequence[int], heat: float = 1.0
) -> list[float]:
    """log p of each response token, by one plain forward pass of transformers' own modules."""
    with torch.no_grad():
        logits = engine.causal(input_ids=torch.tensor([[*prompt, *response]]), use_cache=False)
    logprobs = (logits.logits[0, len(prompt) - 1 : -1] / heat).log_softmax(-1)
    return logprobs.gather(1, torch.tensor(response)[:, None])[:, 0].tolist()


def tokens(found: list[list[Completion]]) -> list[list[list[int]]]:
    return [[c.token_ids for c in row] for row in found]


@pytest.mark.parametrize("adapter", ["one", "two", None])
def test_logprobs_are_the_models_own(engine: Any, adapter: str | None) -> None:
    found = engine.sample(PROMPTS, adapter, PARAMS, n=3)
    engine.set_active(adapter)
    for prompt, row in zip(PROMPTS, found, strict=True):
        for c in row:
            assert c.logprobs == pytest.approx(logprobs_of(engine, prompt, c.token_ids), abs=1e-4)


def test_adapters_and_the_bare_base_sample_differently(engine: Any) -> None:
    found = [tokens(engine.sample(PROMPTS, a, PARAMS, n=3)) for a in ("one", "two", None)]
    assert found[0] != found[1] != found[2] != found[0]


def test_temperature_is_in_the_logprobs(engine: Any) -> None:
    params = SampleParams(max_tokens=6, temperature=0.5, seed=3)
    [[c]] = engine.sample([PROMPTS[0]], "one", params)
    engine.set_active("one")
    assert c.logprobs == pytest.approx(logprobs_of(engine, PROMPTS[0], c.token_ids, 0.5), abs=1e-4)


def test_greedy_takes_the_likeliest_token(engine: Any) -> None:
    found = engine.sample(PROMPTS, "one", SampleParams(max_tokens=8, temperature=0))
    engine.set_active("one")
    for prompt, [c] in zip(PROMPTS, found, strict=True):
        with torch.no_grad():
            logits = engine.causal(input_ids=torch.tensor([[*prompt, *c.token_ids]])).logits
        assert logits[0, len(prompt) - 1 : -1].argmax(-1).tolist() == c.token_ids


def test_rows_do_not_depend_on_the_batch(make_engine: Callable[..., Any]) -> None:
    whole = tokens(make_engine(batch=64).sample(PROMPTS, "one", PARAMS, n=5))
    small = make_engine(batch=3)
    assert tokens(small.sample(PROMPTS, "one", PARAMS, n=5)) == whole
    assert tokens(small.sample(PROMPTS[2:], "one", PARAMS, n=5, first=2)) == whole[2:]
    assert [row[:2] for row in whole] == tokens(small.sample(PROMPTS, "one", PARAMS, n=2))


def test_the_lean_decoder_changes_nothing(make_engine: Callable[..., Any]) -> None:
    lean, plain = (make_engine(lean=use) for use in (True, False))
    a, b = (e.sample(PROMPTS, "one", PARAMS, n=4) for e in (lean, plain))
    assert tokens(a) == tokens(b)
    assert lean.rank(PROMPTS, [[1], [2, 3]], "one") == [
        pytest.approx(row, abs=1e-4) for row in plain.rank(PROMPTS, [[1], [2, 3]], "one")
    ]
    with lean.passes("one"), plain.passes("one"):
        assert lean.lean is not None and plain.lean is None


def test_same_seed_same_tokens_other_seed_other_tokens(engine: Any) -> None:
    def sample(seed: int) -> list[list[list[int]]]:
        return tokens(engine.sample(PROMPTS, "one", SampleParams(8, seed=seed), n=2))

    assert sample(1) == sample(1) != sample(2)


def test_samples_of_one_prompt_differ(engine: Any) -> None:
    [row] = tokens(engine.sample([PROMPTS[0]], "one", SampleParams(8), n=4))
    assert len({tuple(ids) for ids in row}) == 4


def test_a_response_ends_with_its_stop_token_or_at_its_length(engine: Any) -> None:
    for row in engine.sample(PROMPTS, "one", PARAMS, n=6):
        for c in row:
            assert len(c.token_ids) == len(c.logprobs) <= PARAMS.max_tokens
            stops = [t in PARAMS.stop_ids for t in c.token_ids]
            assert not any(stops[:-1])
            assert stops[-1] == (c.stop_reason == "stop")
            assert stops[-1] or len(c.token_ids) == PARAMS.max_tokens


def test_tokens_come_as_often_as_their_probability(make_engine: Callable[..., Any]) -> None:
    engine = make_engine(batch=1000)
    [row] = engine.sample([PROMPTS[1]], "two", SampleParams(1, temperature=0.7), n=4000)
    counts = Counter(c.token_ids[0] for c in row)
    engine.set_active("two")
    with torch.no_grad():
        logits = engine.causal(input_ids=torch.tensor([PROMPTS[1]])).logits[0, -1]
    expected = (logits / 0.7).softmax(-1)
    for token, p in zip(*(x.tolist() for x in expected.topk(5)[::-1]), strict=True):
        assert abs(counts[token] / 4000 - p) < 4 * (p * (1 - p) / 4000) ** 0.5


def test_rank_is_the_sum_of_logprobs(engine: Any) -> None:
    options = [[3, 4], [5], [6, 7, 8]]
    ranked = engine.rank(PROMPTS, options, "one")
    engine.set_active("one")
    for prompt, row in zip(PROMPTS, ranked, strict=True):
        expected = [sum(logprobs_of(engine, prompt, option)) for option in options]
        assert row == pytest.approx(expected, abs=1e-4)


def test_rank_of_single_tokens(engine: Any) -> None:
    [row] = engine.rank([PROMPTS[1]], [[3], [4]], None)
    engine.set_active(None)
    assert row == pytest.approx([logprobs_of(engine, PROMPTS[1], [t])[0] for t in (3, 4)], abs=1e-4)


def test_empty_prompts_and_options_are_faults(engine: Any) -> None:
    with pytest.raises(ConfigError, match="a prompt has no token"):
        engine.sample([[1], []], "one", PARAMS)
    with pytest.raises(ConfigError, match="an option to rank has no token"):
        engine.rank([[1]], [[2], []], "one")


def test_sliding_windows_are_kept(tmp_path: Any) -> None:
    from transformers import AutoModelForCausalLM, MistralConfig

    from macaron.engines.local import load_local

    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=6,
        pad_token_id=0,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    engine = load_local(tmp_path, {})
    prompts = [[5, 6, 7], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1]]
    found = engine.sample(prompts, None, SampleParams(10, stop_ids=(1, 2, 3)), n=4)
    for prompt, row in zip(prompts, found, strict=True):
        for c in row:
            assert c.logprobs == pytest.approx(logprobs_of(engine, prompt, c.token_ids), abs=1e-4)


def test_with_seeds_a_prompt_samples_what_it_would_alone(engine: Any) -> None:
    seeds = [11, 12, 13, 14]
    whole = tokens(engine.sample(PROMPTS, "one", PARAMS, n=3, seeds=seeds))
    alone = [
        tokens(engine.sample([prompt], "one", PARAMS, n=3, seeds=[seed]))[0]
        for prompt, seed in zip(PROMPTS, seeds, strict=True)
    ]
    assert whole == alone
    assert whole[0] != tokens(engine.sample(PROMPTS, "one", PARAMS, n=3, seeds=[15] * 4))[0]


def test_top_p_draws_from_the_likeliest_tokens_and_says_their_probability() -> None:
    logprobs = torch.tensor([[0.2, 0.5, 0.05, 0.25], [0.97, 0.01, 0.01, 0.01]]).log()
    found = nucleus(logprobs, 0.7).exp()
    expected = torch.tensor([[0.0, 2 / 3, 0.0, 1 / 3], [1.0, 0.0, 0.0, 0.0]])
    assert torch.allclose(found, expected, atol=1e-6)


def test_a_nucleus_of_one_token_is_greedy(engine: Any) -> None:
    greedy = engine.sample(PROMPTS, "one", SampleParams(max_tokens=8, temperature=0))
    narrow = engine.sample(PROMPTS, "one", SampleParams(max_tokens=8, top_p=1e-6, seed=5))
    assert tokens(narrow) == tokens(greedy)
    assert all(p == pytest.approx(0, abs=1e-6) for [c] in narrow for p in c.logprobs)
