"""Configs: exact round trips, hashes of what affects the result, changes by dotted path with the right types."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zerocross import methods, models, train, tune
from zerocross.train import (
    Config,
    DataConfig,
    ModelConfig,
    RealConfig,
    Stage,
    TaskConfig,
    changed,
    from_dict,
    to_dict,
    with_method,
)
from zerocross.train.config import resolved
from zerocross.train.recipes import RECIPES, get

# A busy machine must not fail the test.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
positive = st.floats(1e-8, 1e3)
options = st.dictionaries(
    st.text("abc_", min_size=1), st.one_of(st.integers(), st.booleans(), st.none(), st.text()), max_size=3
)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    method = draw(st.sampled_from(sorted(methods.METHODS)))
    numbers = [key for key, value in methods.METHODS[method].hyperparameters.items() if not isinstance(value, str)]
    chosen = st.dictionaries(st.sampled_from(numbers), positive, max_size=3) if numbers else st.just({})  # only ramps
    stage = st.builds(
        Stage, epochs=st.integers(1, 500), binarize=st.sampled_from(["both", "activations", "none"]), optimizer=chosen,
        real=st.fixed_dictionaries({}, optional={"lr": positive, "schedule": st.sampled_from(["step", "linear"])}),
    )  # fmt: skip
    later = stage.map(lambda one: dataclasses.replace(one, init_from="previous"))
    accumulate = draw(st.integers(1, 4))
    return Config(
        recipe=draw(st.text()),
        data=draw(st.builds(DataConfig, name=st.text(), validate=st.booleans(), options=options)),
        model=draw(st.builds(ModelConfig, name=st.text(), options=options)),
        task=draw(st.builds(TaskConfig, label_smoothing=st.floats(0, 0.9), teacher=st.none() | st.text())),
        method=method,
        optimizer=draw(chosen),
        real=draw(
            st.builds(RealConfig, name=st.sampled_from(["sgd", "adam"]), lr=positive, momentum=st.floats(0, 0.99))
        ),
        stages=(draw(stage), *draw(st.lists(later, max_size=2))),
        batch_size=accumulate * draw(st.integers(1, 100)),
        accumulate=accumulate,
        seed=draw(st.integers(0, 2**40)),
        precision=draw(st.sampled_from(["32", "bf16"])),
    )


@unhurried
@given(configs())
def test_round_trip(config: Config) -> None:
    written = json.loads(json.dumps(to_dict(config)))
    assert from_dict(written) == config
    assert from_dict(written).hash == config.hash


@unhurried
@given(configs(), st.text(), st.integers(1, 1000))
def test_hash_depends_only_on_what_affects_the_result(config: Config, name: str, every: int) -> None:
    renamed = dataclasses.replace(config, recipe=name, checkpoint_every=every, evaluate_every=every)
    assert renamed.hash == config.hash
    assert dataclasses.replace(config, seed=config.seed + 1).hash != config.hash
    assert dataclasses.replace(config, batch_size=2 * config.batch_size).hash != config.hash


def test_hash_does_not_depend_on_how_a_number_is_written() -> None:
    assert Config(real=RealConfig(lr=1)).hash == Config(real=RealConfig(lr=1.0)).hash
    assert Config(optimizer={"alpha": 1}).hash == Config(optimizer={"alpha": 1.0}).hash
    assert Config(optimizer={"alpha": 1e-3}).hash == Config().hash  # the default, stated explicitly


def test_hash_depends_on_options_processes_and_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config()
    said_aloud = dataclasses.replace(config, model=ModelConfig(options={"activation": None, "width": 32}))
    assert said_aloud.hash == config.hash == resolved(config).hash
    assert dataclasses.replace(config, processes=2).hash != config.hash
    before = config.hash
    monkeypatch.setattr("zerocross.train.config.ENGINE_REVISION", 99)
    assert config.hash != before
    monkeypatch.undo()
    row = dataclasses.replace(methods.METHODS["filter"], revision=99)
    monkeypatch.setattr("zerocross.methods.values.METHODS", {**methods.METHODS, "filter": row})
    assert config.hash != before


def test_hash_depends_on_the_defaults_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed default is a different run: it never finds the result of the old one."""
    before = Config().hash
    options = models.options("digits_net")
    monkeypatch.setattr(models, "options", lambda _: {**options, "width": 64})
    assert Config().hash != before


def test_another_method_gets_its_own_options_after_resolving() -> None:
    config = resolved(Config())
    latent = with_method(config, "torch-sgd")
    assert latent.hash == with_method(Config(), "torch-sgd").hash
    assert resolved(latent).model.options["weights"] == "latent"


def test_hash_is_the_same_in_every_version() -> None:
    """The names of published results depend on it: a change here changes their names."""
    assert Config().hash == "ad05e76dfbae543b"


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_recipes_are_valid_and_state_the_source_of_their_values(name: str) -> None:
    recipe = get(name)
    assert recipe.config.recipe == name
    assert from_dict(to_dict(recipe.config)) == recipe.config
    assert recipe.stated
    assert recipe.assumed
    assert len(recipe.summary) < 110


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("optimizer.alpha", "1e-4", 1e-4),
        ("optimizer.alpha", "1", 1.0),
        ("batch_size", "32", 32),
        ("data.validate", "true", True),
        ("data.validate", "False", False),
        ("precision", "32", "32"),
        ("precision", "bf16", "bf16"),
        ("stages.0.epochs", "7", 7),
        ("stages.0.binarize", "none", "none"),
        ("stages.0.optimizer.alpha", "0.5", 0.5),
        ("stages.0.real.schedule", "linear", "linear"),
        ("model.options.width", "8", 8),
        ("model.options.activation", "none", "none"),
        ("data.options.reader", "pillow", "pillow"),
        ("task.teacher", "runs/a", "runs/a"),
        ("task.teacher", "none", None),
        ("warmup_epochs", "2", 2.0),
    ],
)
def test_set_converts_text_to_the_type_of_the_field(path: str, text: str, value: Any) -> None:
    result: Any = to_dict(changed(Config(), {path: text}))
    for name in path.split("."):
        result = result[int(name)] if name.isdigit() else result[name]
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("optimizer.alhpa", "1", "did you mean 'alpha'?"),
        ("optimiser.alpha", "1", "did you mean 'optimizer'?"),
        ("real.momentm", "1", "did you mean 'momentum'?"),
        ("stages.0.epoch", "1", "did you mean 'epochs'?"),
        ("stages.0.real.momentun", "1", "did you mean 'momentum'?"),
        ("stages.1.epochs", "1", "'1' is not one of 0..0"),
        ("stages", "1", "names a section, not a value; it contains 0"),
        ("optimizer", "1", "names a section, not a value; it contains alpha"),
        ("seed.more", "1", "seed is a single value"),
        ("real.lr", "fast", "real.lr is 'fast'; it must be a number"),
        ("real.lr", "none", "real.lr is None; it must be a number"),
        ("real.lr", "-1", "they must be positive"),
        ("real.lr", "nan", "they must be positive"),
        ("batch_size", "6.5", "batch_size is 6.5; it must be a whole number"),
        ("batch_size", "0", "it must be at least 1"),
        ("batch_size", "true", "it must be a whole number"),
        ("accumulate", "3", "is not divisible by"),
        ("data.validate", "1", "it must be true or false"),
        ("precision", "16", "it must be 'auto', '32', 'bf16'"),
        ("stages.0.binarize", "all", "it must be 'both', 'activations', 'none'"),
        ("stages.0.init_from", "previous", "the first one cannot have init_from"),
        ("stages.0.epochs", "0", "at least 1"),
        ("task.name", "classify", "it must be 'classification', 'distillation'"),
        ("task.label_smoothing", "1", "it must lie in [0, 1)"),
        ("method", "latent", "did you mean 'latent-sgd'?"),
        ("optimizer.alpha", "small", "optimizer.alpha is 'small'; it must be a number"),
        ("optimizer.schedule", "cos", "it must be one of cosine, linear, constant, step"),
        ("real.schedule", "cos", "it must be one of cosine, linear, constant, step"),
        ("warmup_epochs", "nan", "neither may be negative"),
        ("warmup_epochs", "30", "warmup_epochs is 30; it must be less than the shortest stage, 30 epochs"),
    ],
)
def test_set_refuses_invalid_values_with_a_helpful_line(path: str, text: str, words: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the words are checked below, literally
        changed(Config(), {path: text})
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_another_method_comes_with_its_own_hyperparameters() -> None:
    config = Config(optimizer={"alpha": 0.5}, stages=(Stage(optimizer={"warm_start": 1.0}),))
    for other in (
        with_method(config, "latent-sgd"),
        changed(config, {"optimizer.lr": "0.1", "method": "latent-sgd"}),  # in either order
    ):
        assert other.method == "latent-sgd"
        assert other.optimizer == methods.METHODS["latent-sgd"].hyperparameters
        assert other.stages[0].optimizer == {}
    assert changed(config, {"method": "latent-sgd", "optimizer.clip": "1"}).optimizer["clip"] == 1.0
    assert changed(config, {"method": "latent-sgd", "optimizer.clip": "none"}).optimizer["clip"] is None


def test_unknown_keys_of_a_file_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown field 'colour'"):
        from_dict({**to_dict(Config()), "colour": "blue"})
    with pytest.raises(ValueError, match=r"real\.colour: unknown field 'colour'"):
        from_dict({"real": {"colour": "blue"}})


def test_wrong_types_from_python_are_refused_too() -> None:
    wrong: Any = "64"
    with pytest.raises(ValueError, match="batch_size is '64'; it must be a whole number"):
        Config(batch_size=wrong)
    with pytest.raises(ValueError, match=r"method 'filter' has no hyperparameter 'lr'"):
        Config(optimizer={"lr": 0.1})


def test_stored_results_keep_their_hash() -> None:
    results = sorted((Path(__file__).parents[2] / "results" / "runs").glob("*.json"))
    assert len(results) > 100
    for path in results:
        assert from_dict(json.loads(path.read_text(encoding="utf-8"))["config"]).hash == path.stem


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [(train, old, new) for old, new in train._RENAMED.items()]
    + [(tune, "Plan", "StudyPlan"), (tune, "Space", "SearchSpace")],
)
def test_old_class_names_are_deprecated_aliases(module: Any, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old} is deprecated, use .*{new}"):
        assert getattr(module, old) is getattr(module, new)
