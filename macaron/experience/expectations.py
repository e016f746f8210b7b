"""The expectations on experience, run by Great Expectations; its Data Docs are kept as HTML.

The suite is a document that the loop reads and never writes: every rule and the words in which a
row is refused are in it.
"""

import json
import os
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from macaron.errors import ConfigError
from macaron.files import storage_errors

SUITE = "contracts/experience.json"


def failures(flat: pa.Table, suite: Path, docs: Path) -> dict[int, list[str]]:
    """Row position -> the reasons of the expectations that the row fails.

    Args:
        flat: the columns that the suite speaks of, none nested.
        suite: Great Expectations' JSON, with a `reason` in each expectation's `meta`.
        docs: folder that the Data Docs replace, once they are whole.

    Raises:
        ConfigError: the suite is missing, not a suite, or speaks of what there is not.
    """
    document = _read(suite)
    order = [expectation["meta"]["reason"] for expectation in document["expectations"]]
    failed: dict[int, set[str]] = defaultdict(set)
    results = _run(flat, document, suite, docs)
    if len(results) != len(order):
        # Great Expectations leaves out what it doesn't know and reports success.
        raise _no_suite(suite, f"{len(order) - len(results)} expectations are of no known type")
    for result in results:
        config = result.expectation_config
        rows = result.result.get("unexpected_index_list") or []
        if not result.success and not rows:
            raise _no_suite(
                suite, f"{config.type} on {config.kwargs.get('column')!r} does not name rows"
            )
        for row in rows:
            failed[row].add(config.meta["reason"])
    return {row: sorted(reasons, key=order.index) for row, reasons in failed.items()}


def _no_suite(suite: Path, what: str) -> ConfigError:
    return ConfigError(what, where=str(suite), mend="restore the file from git")


def _read(suite: Path) -> dict[str, Any]:
    try:
        document = dict(json.loads(suite.read_text(encoding="utf-8")))
        without = [e["type"] for e in document["expectations"] if not e["meta"].get("reason")]
    except FileNotFoundError as error:
        raise _no_suite(suite, "no such suite") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _no_suite(suite, f"not a suite of expectations: {error!r}") from error
    if without:
        raise _no_suite(suite, f"no reason in the meta of {without[0]}")
    return document


def _run(flat: pa.Table, document: dict[str, Any], suite: Path, docs: Path) -> list[Any]:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    # Importing it takes seconds, which only this function is to pay.
    import great_expectations as gx
    import pandas as pd
    from great_expectations.exceptions import GreatExpectationsError

    docs.parent.mkdir(parents=True, exist_ok=True)
    with storage_errors(docs), tempfile.TemporaryDirectory(dir=docs.parent, prefix=".") as folder:
        try:
            checkpoint = _checkpoint(gx, document, Path(folder) / "new")
            frame = flat.to_pandas(types_mapper=pd.ArrowDtype)
            outcome = checkpoint.run(batch_parameters={"dataframe": frame})
        except (GreatExpectationsError, TypeError, ValueError) as error:
            raise _no_suite(suite, f"not a suite of expectations: {error}") from error
        if docs.exists():
            docs.rename(Path(folder) / "old")
        (Path(folder) / "new").rename(docs)
    (result,) = outcome.run_results.values()
    return list(result.results)


def _checkpoint(gx: Any, document: dict[str, Any], docs: Path) -> Any:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    context.add_data_docs_site(
        site_name="docs",
        site_config={
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "store_backend": {
                "class_name": "TupleFilesystemStoreBackend",
                "base_directory": str(docs),
            },
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        },
    )
    source = context.data_sources.add_pandas("experience").add_dataframe_asset("rows")
    definition = gx.ValidationDefinition(
        name="night",
        data=source.add_batch_definition_whole_dataframe("all"),
        suite=context.suites.add(gx.ExpectationSuite(**document)),
    )
    checkpoint = gx.Checkpoint(
        name="night",
        validation_definitions=[context.validation_definitions.add(definition)],
        actions=[gx.checkpoint.UpdateDataDocsAction(name="docs", site_names=["docs"])],
        # Without index columns, COMPLETE gives row positions.
        result_format={"result_format": "COMPLETE"},
    )
    return context.checkpoints.add(checkpoint)
