"""The cells of a notebook: which there are, and what they print and draw."""

from nbformat import NotebookNode

# tags of code cells whose code a reader doesn't see
HIDDEN = {"hide-input", "hide-cell", "remove-cell", "remove-input"}


def tags(cell: NotebookNode) -> list[str]:
    """A cell's tags; without any, an empty list."""
    return cell.metadata.get("tags", [])


def code(notebook: NotebookNode) -> list[NotebookNode]:
    """The code cells."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def markdown(notebook: NotebookNode) -> list[NotebookNode]:
    """The Markdown cells."""
    return [cell for cell in notebook.cells if cell.cell_type == "markdown"]


def visible(notebook: NotebookNode) -> list[NotebookNode]:
    """The code cells whose code a reader sees."""
    return [cell for cell in code(notebook) if not HIDDEN & set(tags(cell))]


def taught(notebook: NotebookNode) -> list[NotebookNode]:
    """The code cells that are a definition of the package."""
    return [cell for cell in code(notebook) if "teaches" in tags(cell)]


def printed(cell: NotebookNode) -> str:
    """What a code cell prints."""
    return "".join(
        output.text
        for output in cell.outputs
        if output.output_type == "stream" and output.name == "stdout"
    )


def pictures(cell: NotebookNode) -> list[NotebookNode]:
    """The outputs of a cell that are pictures."""
    return [
        output
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]


def alt_text(picture: NotebookNode) -> str:
    """The words that stand in for a picture."""
    return picture.metadata.get("image/png", {}).get("alt", "")
