"""What a dry run found, for a person."""

from typing import Any

from vitedu.cli.announcement import counted
from vitedu.cli.answer import table
from vitedu.cli.cost import readable_hours
from vitedu.errors import readable_bytes


def forecast(values: dict[str, Any]) -> str:
    """The answer for a person."""
    rows = [
        ("classes", classes_line(values["data"])),
        ("pictures", pictures_line(values["data"])),
        ("memory", memory_line(values["memory"], values.get("time", {}))),
    ]
    if "time" in values:
        rows += time_rows(values["time"])
    return table([row for row in rows if row[1]])


def classes_line(data: dict[str, Any]) -> str:
    """How many, and the smallest and the largest."""
    line = f"{data['num_classes']:,}"
    if "smallest" not in data:
        return f"{line}; how many images each has, only reading them tells"
    few, many = data["smallest"], data["largest"]
    if few["count"] == many["count"]:
        return f"{line}, each with {counted(few['count'], 'image')} to train on"
    return (
        f"{line}; {counted(few['count'], 'image')} to train on in the smallest "
        f"({few['class']}), {many['count']:,} in the largest ({many['class']})"
    )


def pictures_line(data: dict[str, Any]) -> str:
    """How many can't be read; nothing where there are none to read."""
    if left_out := data["left_out"]:
        return (
            f"{len(left_out):,} can't be read and are left out; the first: "
            f"{left_out[0]}"
        )
    if "sample" not in data:
        return ""
    count, wrong = data["sample"]["count"], data["sample"]["unreadable"]
    if wrong:
        return (
            f"{100 * len(wrong) / count:.1f} % of a sample of {count} can't be "
            f"read; the first: {wrong[0]}"
        )
    return f"all of a sample of {count} can be read"


def memory_line(memory: dict[str, Any], measured: dict[str, Any]) -> str:
    """What a step needs, of what there is."""
    there = readable_bytes(memory["available"])
    peak = ""
    if "peak_memory" in measured:
        peak = f"; {readable_bytes(measured['peak_memory'])} were measured"
    if "needed" not in memory:
        unknown = memory["unknown"]
        return f"{there} are free; no prediction ({unknown}){peak}"
    needed = readable_bytes(memory["needed"]["total"])
    if memory["enough"]:
        return f"{needed} are needed, {there} are free: enough{peak}"
    advice = "take a smaller model or smaller images"
    if memory["add"]:
        advice = f"add {memory['add']}"
    return f"{needed} are needed, {there} are free: not enough; {advice}"


def time_rows(expected: dict[str, Any]) -> list[tuple[str, str]]:
    """How long training takes, and measuring."""
    hours = readable_hours(expected["training_seconds"] / 3600)
    evaluation = readable_hours(expected["evaluation_seconds"] / 3600)
    steps = expected["measured_steps"]
    line = (
        f"{hours} for {counted(expected['steps'], 'step')} of "
        f"{expected['step_seconds']:.3g} s (median of {steps} measured), "
        f"{expected['images_per_second']:,.0f} images/s, "
        f"{100 * expected['data_wait']:.0f} % of it waiting for data"
    )
    images = f"{evaluation} for {expected['evaluated_images']:,} images"
    return [("training", line), ("evaluation", f"{images}, estimated")]
