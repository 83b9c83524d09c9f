"""Write the page of a run into its folder."""

from collections.abc import Callable

from vitedu.data import Source
from vitedu.evaluate.classify import class_names
from vitedu.figures.report import page
from vitedu.figures.report.examples import Measured, measure
from vitedu.files import replace_file
from vitedu.train.config import TrainConfig, as_typed, dotted
from vitedu.train.journal import Run
from vitedu.train.recipes.compare import changed_settings, model_line
from vitedu.train.run_folder import RunFolder


def write_report(
    run: Run,
    folder: RunFolder,
    test: Source | str,
    should_stop: Callable[[], bool] = lambda: False,
) -> Measured | None:
    """Write report.html; `test` may say why the test part is missing."""
    config = TrainConfig.from_json(run.result["config"])
    measured = None
    if not isinstance(test, str):
        measured = measure(run.model, test, config, should_stop)
    changed = changed_settings(config)
    contents = page.Contents(
        run=str(folder.path),
        model=model_line(config),
        result=run.result,
        history=run.history,
        class_names=class_names(run.model, config.model.num_classes),
        settings={x: as_typed(y) for x, y in dotted(config.to_json())},
        changed=changed
        and {
            name: f"{as_typed(now)} (recipe: {as_typed(before)})"
            for name, (before, now) in changed.items()
        },
        measured=measured,
        missing=test if isinstance(test, str) else "",
    )
    replace_file(folder.report, page.render(contents))
    return measured
