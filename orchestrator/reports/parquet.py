"""Writes tables as Parquet files. pyarrow is imported late, because most reports do not need it."""

from io import BytesIO
from typing import Any

from orchestrator.errors import UsageError
from orchestrator.reports.tables import Table


def require_pyarrow() -> None:
    """Raises UsageError if pyarrow is not installed."""
    _import_pyarrow()


def table_parquet(table: Table) -> bytes:
    """Returns the bytes of the file. Columns have the table's types; empty cells are null. Raises UsageError."""
    pa, write_table = _import_pyarrow()
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    fields = [(name, kinds[kind]) for name, kind in zip(table.columns, table.dtypes, strict=True)]
    values = list(zip(*table.rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, kind) for column, (_, kind) in zip(values, fields, strict=True)]
    out = BytesIO()
    write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), out)
    return out.getvalue()


def _import_pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415  it takes a third of a second and 170 MB
        from pyarrow.parquet import write_table  # noqa: PLC0415
    except ImportError as error:
        raise UsageError("Parquet needs pyarrow; pip install 'sparring[parquet]', or leave --parquet out") from error
    return pa, write_table
