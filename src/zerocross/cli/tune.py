"""zerocross tune: search for the best settings of a recipe on validation data."""

from __future__ import annotations

import json
import logging
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zerocross.checks import one_line
from zerocross.cli.train import DATA_DIR, assignments

if TYPE_CHECKING:
    from zerocross.sweep.objective import Training
    from zerocross.tune import Outcome, Study, StudyPlan

STORAGE = "sqlite:///runs/tune.db"


def command(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A name from `zerocross recipes`, or a .json file.")
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="filter (alpha, gamma), latent (six settings), or a .json file. [filter]"),
    ] = None,
    trials: Annotated[int | None, typer.Option(metavar="N", help="Total number of trials. [25]", min=1)] = None,
    sampler: Annotated[
        str | None, typer.Option(metavar="NAME", help="botorch, gp (Optuna's own), tpe or random. [botorch]")
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", metavar="", help="Prune trials that are worse than the median of the others.")
    ] = False,
    storage: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The database that workers share: sqlite:///FILE, postgresql://..., mysql+pymysql://...",
            envvar="ZEROCROSS_STORAGE",
        ),
    ] = STORAGE,
    study: Annotated[
        str | None, typer.Option(metavar="NAME", help="The study's name. Default: RECIPE-SPACE-SAMPLER-seedS.")
    ] = None,
    workers: Annotated[int, typer.Option(metavar="N", help="Number of processes on this machine.", min=1)] = 1,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Seed of the sampler and of every run. [0]", min=0)
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help="Epochs of every run. Default: the recipe's.", min=1)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Change a setting of every run. Repeatable."),
    ] = None,
    data_dir: Annotated[Path | None, DATA_DIR] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the best recipe and the plot.")] = Path("runs"),
    resume: Annotated[
        str | None, typer.Option(metavar="STUDY", help="Resume this study, or join it from another machine.")
    ] = None,
    show: Annotated[str | None, typer.Option(metavar="STUDY", help="Show the results of this study so far.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Print only the final result.")] = False,
) -> int:
    """Search for the best settings of a recipe on validation data; test data is not read.

    The same command on other machines, with the same storage, joins the same study. An interrupted study resumes with
    --resume; trials of workers that died are run again. The best settings are written to a recipe file for `zerocross
    train`.
    """
    given = {
        "RECIPE": recipe, "--space": space, "--sampler": sampler, "--prune": prune, "--study": study, "--seed": seed,
        "--epochs": epochs, "--set": set_,
    }  # fmt: skip
    named = {"--resume": resume, "--show": show}
    if sum(value is not None for value in named.values()) > 1:
        raise ValueError("--show and --resume cannot be combined; --resume shows the results at its end")
    for option, value in named.items():
        if value is not None and (
            refused := [name for name, setting in given.items() if setting is not None and setting is not False]
        ):
            raise ValueError(f"{option} uses the settings of an existing study: remove {', '.join(refused)}")
    if show is not None and trials is not None:
        raise ValueError("--show does not run trials: remove --trials, or use --resume")
    _need_packages()

    from zerocross import tune

    if show is not None:
        _show(tune.join(tune.connect(storage, create=False), show), out)
        return 0
    where = str(data_dir.resolve()) if data_dir else None
    if resume is not None:
        joined = tune.join(tune.connect(storage, create=False), resume)
        objective = _objective(joined.plan, where)
    else:
        if recipe is None:
            raise ValueError("a recipe is required; example: zerocross tune audiomnist-mlp --space filter")
        name = study or f"{Path(recipe).stem}-{Path(space or 'filter').stem}-{sampler or 'botorch'}-seed{seed or 0}"
        about = _recipe(recipe, epochs, set_ or [], seed or 0)
        plan = tune.StudyPlan(_space(space or "filter"), sampler or "botorch", seed or 0, prune, {"config": about})
        objective = _objective(plan, where)
        objective.check(plan.space)
        joined = tune.begin_or_join(tune.connect(storage), name, plan)
        trials = trials or 25
    if trials is not None:
        tune.extend(joined, trials)
    return _search(joined, objective, storage, workers, out, quiet=quiet)


def _need_packages() -> None:
    try:
        import optuna
    except ImportError:
        raise ValueError("zerocross tune requires additional packages: pip install 'zerocross[tune]'") from None
    del optuna
    logging.getLogger("lightning_fabric.utilities").setLevel(logging.WARNING)  # hide the ranks of the processes
    sys.path.append(str(Path.cwd()))  # a teacher's module:function may be there


def _objective(plan: StudyPlan, data_dir: str | None) -> Training:
    from zerocross.sweep.objective import Reader, Training
    from zerocross.train import Placement, from_dict

    return Training(from_dict(plan.about["config"]), Reader(Placement(data_dir)), prune=plan.prune)


def _space(name: str) -> Any:
    from zerocross.tune import spaces

    return spaces.get(name)


def _recipe(name: str, epochs: int | None, set_: list[str], seed: int) -> dict[str, Any]:
    from zerocross.train import changed, recipes, to_dict
    from zerocross.train.precision import settled
    from zerocross.train.variants import with_epochs

    config = recipes.get(name).config
    config = with_epochs(config, epochs) if epochs is not None else config
    # Resolve the precision here, so that workers on other machines use the same.
    return to_dict(settled(changed(config, {**assignments(set_), "seed": str(seed)})))


def _search(study: Study, objective: Training, storage: str, workers: int, out: Path, *, quiet: bool) -> int:
    """Run trials until the study is complete, then show it."""
    from optuna.exceptions import StorageInternalError

    from zerocross.tune import history
    from zerocross.tune.text import count
    from zerocross.tune.workers import run, stoppable

    hint = f"resume with: zerocross tune --resume {study.name}{_storage_option(storage)}"
    before = history.read(study.load())
    if before.outcomes and before.open and not quiet:
        _say(f"study {study.name}: {count(before)} trials are already complete")
    start, errors = time.monotonic(), []
    try:
        if workers == 1:
            with stoppable():
                _work(study, objective, quiet=quiet)
        else:
            args = (study.name, storage, objective.read.place.data_dir, quiet)
            errors = [str(ended) for ended in run(workers, _join_and_work, *args) if ended.code]
        after = history.read(study.load())
    except (KeyboardInterrupt, SystemExit) as stopped:
        code = stopped.code if isinstance(stopped, SystemExit) else 128 + signal.SIGINT
        return _fail(f"stopped; running trials were returned to the queue; {hint}", int(code or 0))
    except StorageInternalError as error:
        return _fail(f"the storage is no longer available ({one_line(error.__cause__ or error, 300)}); {hint}", 1)
    causes = one_line("; ".join(sorted(set(errors))), 300)
    if after.open:
        return _fail(f"all workers have exited ({causes}) after {count(after)} trials; {hint}", 1)
    if errors:
        _say(f"{len(errors)} of {workers} workers exited early ({causes}); the others completed their trials")
    done, seconds = len(after.outcomes) - len(before.outcomes), time.monotonic() - start
    if done:
        rate = f"{60 * done / seconds:.1f} per minute"
        _say(f"{done} trials by {workers} worker{'s' * (workers > 1)} in {seconds:.0f} s, {rate}")
    _show(study, out)
    return 0


def _join_and_work(name: str, storage: str, data_dir: str | None, quiet: bool) -> None:
    """Entry point of one of several worker processes."""
    from zerocross import tune

    _need_packages()
    study = tune.join(tune.connect(storage, create=False), name)
    _work(study, _objective(study.plan, data_dir), quiet=quiet)


def _work(study: Study, objective: Training, *, quiet: bool) -> None:
    from zerocross import tune
    from zerocross.tune import history, text

    def say(outcome: Outcome) -> None:
        if not quiet:
            _say(text.progress(history.read(study.load()), outcome, " %"))

    tune.work(study, objective, say)


def _show(study: Study, out: Path) -> None:
    """Print the best settings, their importance and the command that trains with them; plot the history."""
    from zerocross.tune import history, picture, text

    view = study.load()
    results = history.read(view)
    for line in text.summary(study, results, history.importance(view), "validation accuracy", " %"):
        _say(line)
    if results.best is not None:
        plot = out / f"{study.name}.png"
        picture.draw(plot, results, study.plan.space, study.name, "validation accuracy (%)")
        _say(f"history: {plot}")
        _say(f"train with the best: zerocross train {shlex.quote(str(_write_best(study, results.best, out)))}")


def _write_best(study: Study, best: Outcome, out: Path) -> Path:
    """Write the best settings to a recipe file, whose config evaluates on test data."""
    import dataclasses

    from zerocross.files import write_text
    from zerocross.sweep.objective import applied
    from zerocross.train import from_dict, to_dict

    name = f"{study.name}-trial{best.number}"
    config = applied(from_dict(study.plan.about["config"]), {**study.plan.space.fixed, **best.settings})
    text = json.dumps(to_dict(dataclasses.replace(config, recipe=name)), indent=1) + "\n"
    path = out / f"{name}.json"
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise FileExistsError(f"{path} contains another recipe; move it away, or choose another folder with --out")
    write_text(path, text)
    return path


def _storage_option(storage: str) -> str:
    from zerocross.tune.storage import shown

    return "" if storage == STORAGE else f" --storage {shlex.quote(shown(storage))}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"zerocross: {message}\n")
    return code
