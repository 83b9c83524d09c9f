"""A CSV that a spreadsheet opens as text and numbers, whatever names it holds.

A cell that begins like a formula would be computed by a spreadsheet, and a
file or a class can be called anything.
"""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from vitedu.errors import UserError
from vitedu.files import replace_file, user_path

# How formulas begin; the last four are the wide forms of the first.
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def table_path(name: str) -> Path:
    """Where to write a table. UserError: the name doesn't end in .csv."""
    path = user_path(name)
    if path.suffix.lower() != ".csv" or os.path.isdir(path):
        raise UserError(
            f"--csv needs the name of a file that ends in .csv, got {name}"
        )
    return path


def write_table(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[str | float]]
) -> None:
    """Write rows as they come, in UTF-8; the file is there whole or not at all.

    Text is quoted, so that a spreadsheet which splits at semicolons keeps it
    whole. UserError: the file cannot be written. What `rows` raises is raised.
    """
    failures: list[Exception] = []

    def computed() -> Iterator[Sequence[str | float]]:
        try:
            yield from rows
        except Exception as error:
            failures.append(error)
            raise

    def write(file: BinaryIO) -> None:
        text = io.TextIOWrapper(
            file, "utf-8", errors="backslashreplace", newline=""
        )
        writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(header)
        writer.writerows(computed())
        text.detach()  # `replace_file` goes on with the file

    try:
        replace_file(path, write)
    except UserError:
        # which takes an error of the model for one of the disk
        for failure in failures:
            raise failure from None
        raise


def path_cell(file: str) -> str:
    """A path that no spreadsheet computes, and that leads to the same file."""
    return os.path.join(".", file) if file.startswith(FORMULA) else file


def text_cell(text: str) -> str:
    """A text that no spreadsheet computes: formulas get an apostrophe."""
    if not text.startswith(FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text  # a class called -1
