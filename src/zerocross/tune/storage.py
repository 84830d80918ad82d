"""Storage of studies: a database shared by any number of workers, or the memory of this process."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import optuna
import sqlalchemy
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import BaseStorage, RDBStorage
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError

from zerocross.checks import one_line
from zerocross.tune.queue import requeue

T = TypeVar("T")

BEAT = 15  # seconds between two heartbeats of a running trial
GRACE = 60  # seconds without a heartbeat after which a worker is presumed dead
_PATIENCE = (1, 5, 15, 30)  # seconds between attempts to reach a database that was available before


@dataclass(frozen=True)
class Storage:
    """An open storage.

    Args:
        database: Optuna's handle.
        beat: Seconds between two heartbeats of a running trial; None: no heartbeats.
        grace: Seconds without a heartbeat after which a worker is presumed dead.

    Examples:
        >>> from zerocross import tune
        >>> isinstance(tune.in_memory(), tune.Storage)
        True
    """

    database: BaseStorage
    beat: int | None = None
    grace: int = GRACE


def in_memory() -> Storage:
    """Return a storage in the memory of this process.

    Examples:
        >>> from zerocross import tune
        >>> tune.begin_or_join(tune.in_memory(), "mine", tune.StudyPlan(tune.SPACES["filter"], sampler="tpe")).name
        'mine'
    """
    return Storage(optuna.storages.InMemoryStorage())


def connect(url: str, *, create: bool = True, beat: int = BEAT, grace: int = GRACE) -> Storage:
    """Open a database by URL: sqlite:///FILE, postgresql://..., mysql+pymysql://...

    Args:
        url: An SQLAlchemy URL.
        create: Create a SQLite file that does not exist.
        beat: Seconds between two heartbeats of a running trial.
        grace: Seconds without a heartbeat after which a worker is presumed dead; greater than `beat`.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from zerocross import tune
        >>> plan = tune.StudyPlan(tune.SPACES["filter"], sampler="tpe")
        >>> with TemporaryDirectory() as folder:
        ...     storage = tune.connect(f"sqlite:///{Path(folder, 'tune.db')}")
        ...     print(tune.begin_or_join(storage, "mine", plan).name)
        ...
        mine
    """
    parsed, named = _parse(url)
    if not 0 < beat < grace:
        raise ValueError(
            f"beat and grace are {beat} and {grace} seconds; they must be positive, and grace greater than beat"
        )
    sqlite = parsed.get_backend_name() == "sqlite"
    if sqlite:
        _check_file(parsed.database, named, create=create)
    if parsed.drivername == "postgresql":  # psycopg is the default driver of SQLAlchemy 2.1, psycopg2 that of 2.0
        url = url.replace("postgresql", "postgresql+psycopg", 1)
    options = {"connect_args": {"timeout": 60}} if sqlite else {"connect_args": {"connect_timeout": 10}}
    try:
        rdb = _open(url, options if sqlite else {**options, "pool_pre_ping": True}, beat, grace)
    except ImportError as error:
        raise ValueError(
            f"the storage {named} needs a driver ({error.__cause__ or error}): pip install psycopg[binary] for "
            "postgresql://, pymysql for mysql+pymysql://"
        ) from error
    except (SQLAlchemyError, StorageInternalError, RuntimeError) as error:
        raise ValueError(f"the storage {named} cannot be reached: {_brief(error)}") from error
    if sqlite:
        _take_turns(rdb.engine)
    return Storage(optuna.storages.get_storage(rdb), beat, grace)  # adds a cache of finished trials


def patiently(call: Callable[[], T]) -> T:
    """Call a function, retrying for a while if the database is unavailable, so that its restart costs no trial."""
    for seconds in _PATIENCE:
        try:
            return call()
        except StorageInternalError:
            time.sleep(seconds)
    return call()


def _open(url: str, options: dict[str, Any], beat: int, grace: int) -> RDBStorage:
    def once() -> RDBStorage:
        return RDBStorage(
            url,
            engine_kwargs=dict(options),
            heartbeat_interval=beat,
            grace_period=grace,
            heartbeat_stale_trial_callback=requeue,
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # heartbeats are experimental in Optuna
        for _ in range(4):
            try:
                return once()
            except (OperationalError, ProgrammingError, IntegrityError):
                if not _answers(url, options):
                    raise
                time.sleep(1)  # several workers create the tables of a new database at once; only one succeeds
        return once()


def _answers(url: str, options: dict[str, Any]) -> bool:
    engine = sqlalchemy.create_engine(url, **options)
    try:
        with engine.connect():
            return True
    except SQLAlchemyError:
        return False
    finally:
        engine.dispose()


def _take_turns(engine: sqlalchemy.Engine) -> None:
    """Serialize SQLite transactions: reads take no lock, so that two workers could claim the same trial."""

    @event.listens_for(engine, "connect")
    def connected(connection: Any, record: Any) -> None:
        del record
        connection.isolation_level = None  # otherwise Python's sqlite3 begins only at the first write

    @event.listens_for(engine, "begin")
    def begun(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    engine.dispose()  # connections from before


def _parse(url: str) -> tuple[sqlalchemy.URL, str]:
    """Return a parsed URL, and its text without the password; never show a URL that cannot be parsed."""
    for_instance = "for instance sqlite:///runs/tune.db, postgresql://user@host/database"
    user, _, secret = url.rpartition("@")[0].partition("://")[2].partition(":")
    if "/" not in user and set(secret) & set("@:/?#[] "):
        raise ValueError(
            "the storage's URL cannot be read: write special characters of a password percent-encoded (%40 for @)"
        )
    try:
        parsed = sqlalchemy.make_url(url)
    except (ArgumentError, ValueError):
        harmless = "@" not in url and "pass" not in url.lower()
        what = f"storage {url!r}" if harmless else "the storage (not shown, since it may hold a password)"
        raise ValueError(f"{what} is not a URL; {for_instance}") from None
    return parsed, shown(parsed)


def shown(url: str | sqlalchemy.URL) -> str:
    """Return a URL for display, without its password."""
    parsed = sqlalchemy.make_url(url)
    query = {key: "hidden" if "pass" in key.lower() else value for key, value in parsed.query.items()}
    return parsed.set(query=query).render_as_string(hide_password=True)


def _check_file(file: str | None, named: str, *, create: bool) -> None:
    if not file or file == ":memory:":
        raise ValueError(f"the storage {named} would be in memory, where other processes cannot access it; give a file")
    path = Path(file)
    if not path.exists() and not create:
        raise FileNotFoundError(f"the storage {named} cannot be reached: there is no file {path}")
    if path.exists() and path.is_file() and path.stat().st_size:
        with path.open("rb") as opened:
            if opened.read(15) != b"SQLite format 3":
                raise ValueError(f"the storage {named} cannot be reached: {path} is not a SQLite file")
    path.parent.mkdir(parents=True, exist_ok=True)


def _brief(error: BaseException) -> str:
    """Return the start of a database's message, without SQLAlchemy's link to its documentation."""
    return one_line(getattr(error, "orig", None) or error.__cause__ or error, 200)
