"""How a network is used: its pictures, what outputs mean; and JSON of that.

`Usage(PreprocessSpec(224), ("cat", "dog")).to_json()`
"""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, get_args

from vitedu.errors import UserError
from vitedu.model.resize import ResizeMode
from vitedu.pictures import PreprocessSpec

LossName = Literal["softmax", "sigmoid"]


class Usage(NamedTuple):
    """What travels with a network, apart from its configuration and weights.

    `loss_name` is the loss that it was trained with. A file says "sigmoid"
    alone, so that for any other network None comes back: unknown.
    """

    preprocess: PreprocessSpec
    class_names: tuple[str, ...] = ()  # by index; empty: unknown
    loss_name: LossName | None = None
    # whose resampling fits the positions to another grid
    resize_mode: ResizeMode = "paper"

    def to_json(self) -> dict[str, Any]:
        """Plain values; loss and resizing only if they aren't the usual."""
        content: dict[str, Any] = {
            "preprocess": self.preprocess.to_json(),
            "class_names": list(self.class_names),
        }
        if self.loss_name not in (None, "softmax"):
            content["loss"] = self.loss_name
        if self.resize_mode != "paper":
            content["resize"] = self.resize_mode
        return content

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Usage":
        """What `to_json` wrote; other keys are left alone.

        UserError: it cannot be understood.
        """
        for name in ("preprocess", "class_names"):
            if name not in values:
                raise UserError(f"{name} is missing")
        spec = PreprocessSpec.from_json(values["preprocess"])
        names = checked_names(values["class_names"])
        loss, resize = values.get("loss"), values.get("resize", "paper")
        for key, value, known in (
            ("loss", loss, (None, *get_args(LossName))),
            ("resize", resize, get_args(ResizeMode)),
        ):
            if value not in known:
                words = ", ".join(filter(None, known))
                raise UserError(f"{key} is {value!r}, not one of {words}")
        return cls(spec, names, loss, resize)


def checked_names(names: Any) -> tuple[str, ...]:
    """Class names as a tuple. UserError: not a list, or one isn't a string."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UserError(f"class_names must be a list of names, got {names!r}")
    names = tuple(names)
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise UserError(
                f"class_names must be strings, got {name!r} for class {index}"
            )
    return names
