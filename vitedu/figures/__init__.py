"""What drawings are made of, and those that any chapter may show.

`figures.show(*figures.network("attention"))` in a notebook: a function that
draws returns a figure and its alt text. `palette`, `charts`, `schematic` and
`photos` are what all drawings are made of; each chapter's own are in
`chapters`. `report` is no drawing but the page of a run, as HTML.
"""

from vitedu.figures.network import network
from vitedu.figures.report.charts import curves
from vitedu.figures.show import show

__all__ = ["curves", "network", "show"]
