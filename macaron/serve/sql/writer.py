"""Group commit: one thread writes for all sessions, so that they share a sync of the disk.

An operation is answered after the commit that holds it. One that fails, fails alone: the others of
its transaction are done again, each in its own.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from macaron.errors import StorageError
from macaron.serve.sql.faults import explained, place_of

MOST = 256
"""Operations in one commit."""

Work = Callable[[Connection], Any]


@dataclass
class _Operation:
    work: Work
    future: "asyncio.Future[Any]"
    result: Any = None
    error: Exception | None = None


class Writer:
    """The thread, and its one connection.

    Args:
        engine: of writing connections.
        connected: run in a transaction of each new connection but the first.
    """

    def __init__(self, engine: Engine, connected: Work) -> None:
        self._engine, self._connected = engine, connected
        self._queue: SimpleQueue[_Operation | None] = SimpleQueue()
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="timeline", daemon=True)
        self._closed = False

    def start(self, first: Connection) -> None:
        """Goes on with an open connection, outside of a transaction."""
        self._connection = first
        self._thread.start()

    async def do(self, work: Work) -> Any:
        """The work's result, once it is on the disk.

        Raises:
            StorageError: it cannot be kept.
            ServiceError: Postgres does not answer.
        """
        if self._closed:
            raise StorageError("the timeline is closed", where=place_of(self._engine.url))
        operation = _Operation(work, asyncio.get_running_loop().create_future())
        self._queue.put(operation)
        return await operation.future

    def close(self) -> None:
        """Waits for what was asked before; blocks."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()
        if self._connection is not None:
            self._connection.close()

    def _run(self) -> None:
        while True:
            batch, go_on = self._take()
            if batch:
                self._commit(batch)
                _answer(batch)
            if not go_on:
                return

    def _take(self) -> tuple[list[_Operation], bool]:
        """All that waits, at least one; and whether more may come."""
        batch: list[_Operation] = []
        operation = self._queue.get()
        while operation is not None:
            batch.append(operation)
            if len(batch) == MOST or self._queue.empty():
                return batch, True
            operation = self._queue.get()
        return batch, False

    def _commit(self, batch: list[_Operation]) -> None:
        try:
            self._attempt(batch)
        except _WorkError as error:
            if len(batch) == 1:
                batch[0].error = self._explained(error.cause)
                return
            for operation in batch:
                self._commit([operation])
        except Exception as error:
            for operation in batch:
                operation.error = self._explained(error)

    def _attempt(self, batch: list[_Operation]) -> None:
        try:
            self._transact(batch)
        except Exception as error:
            cause = error.cause if isinstance(error, _WorkError) else error
            if not (isinstance(cause, DBAPIError) and cause.connection_invalidated):
                raise
            self._transact(batch)

    def _transact(self, batch: list[_Operation]) -> None:
        connection = self._connect()
        try:
            with connection.begin():
                for operation in batch:
                    _perform(operation, connection)
        finally:
            if connection.invalidated:
                connection.close()
                self._connection = None

    def _connect(self) -> Connection:
        if self._connection is None:
            connection = self._engine.connect()
            try:
                with connection.begin():
                    self._connected(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _explained(self, error: Exception) -> Exception:
        return explained(error, self._engine.url) if isinstance(error, DBAPIError) else error


class _WorkError(Exception):
    """An operation failed, not the transaction around it."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _perform(operation: _Operation, connection: Connection) -> None:
    try:
        operation.result = operation.work(connection)
    except Exception as error:
        raise _WorkError(error) from error


def _answer(batch: list[_Operation]) -> None:
    for operation in batch:
        # The loop may be over: then nobody waits.
        with suppress(RuntimeError):
            operation.future.get_loop().call_soon_threadsafe(_settle, operation)


def _settle(operation: _Operation) -> None:
    if operation.future.done():
        # Whoever asked has been cancelled.
        return
    if operation.error is not None:
        operation.future.set_exception(operation.error)
    else:
        operation.future.set_result(operation.result)
