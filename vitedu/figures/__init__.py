"""Building blocks of drawings, and drawings that any chapter may show.

`figures.show(*figures.network("attention"))`: a drawing function returns a
figure and its alt text. Each chapter's own are in `chapters`; `report` is the
HTML page of a run.
"""

from vitedu.figures.network import network
from vitedu.figures.report.charts import curves
from vitedu.figures.show import show

__all__ = ["curves", "network", "show"]
