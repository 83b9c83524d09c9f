"""Chapter 7: number formats, gradients, memory and speed."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from vitedu.figures.charts import WIDTH, bare, chart, note
from vitedu.figures.palette import (
    ATTENTION,
    CLASS,
    DARK,
    MLP,
    NIGHT,
    PALE,
    PATCHES,
    POSITIONS,
    STREAM,
    TINTS,
)
from vitedu.figures.schematic import (
    arrow,
    canvas,
    column,
    label,
    line,
    rectangle,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# bits of the exponent and of the fraction, after one for the sign
FORMATS = {
    torch.float32: (8, 23),
    torch.bfloat16: (8, 7),
    torch.float16: (5, 10),
}
INTEGERS = {2: torch.int16, 4: torch.int32}  # as wide, by bytes
# powers of two in float16: what is below the first becomes zero, below the
# second loses bits, from the third on overflows
ZERO, COARSE, OVER = -25, -14, 16
PARTS = {
    "image": PATCHES,
    "norms": STREAM,
    "attention": ATTENTION,
    "attention maps": TINTS[ATTENTION],
    "MLP": MLP,
}
MODULES = {"attn": "attention", "mlp": "MLP", "patch_embed": "image"}


# PyTorch's operations, by kind
REST = "the rest"
KINDS = {
    "products": ("mm", "addmm", "bmm", "convolution", "convolution_backward"),
    "softmax": ("_softmax", "_softmax_backward_data"),
    "GELU": ("gelu", "gelu_backward"),
    "norms": ("native_layer_norm", "native_layer_norm_backward"),
    "optimizer": ("lerp_", "addcdiv_", "addcmul_", "sqrt"),
    "sums and copies": ("add", "add_", "copy_", "clone", "sum", "mul", "div"),
}


class Work(NamedTuple):
    """What one operation does, and how fast."""

    name: str
    intensity: float  # operations per byte moved
    speed: float  # 1e9 operations a second


def bits(value: float, dtype: torch.dtype) -> str:
    """The bits of a number in a format, the sign first."""
    number = torch.tensor(value, dtype=dtype)
    whole = int(number.view(INTEGERS[dtype.itemsize]))
    width = 8 * dtype.itemsize
    return f"{whole & (1 << width) - 1:0{width}b}"


def formats(value: float) -> "tuple[Figure, str]":
    """One number in three formats, a square for each bit.

    Where it's stored exactly, the ones of its fraction are marked.
    """
    side, left = 13, 6
    figure, axes = canvas(430, 232, opaque=True)
    start = {"ha": "left", "va": "center_baseline"}
    told = []
    for row, (dtype, (exponent, fraction)) in enumerate(FORMATS.items()):
        name = str(dtype).removeprefix("torch.")
        top = 214 - 66 * row
        stored = float(torch.tensor(value, dtype=dtype))
        label(axes, (left, top), name, DARK, 13, weight="bold", **start)
        words = f"stores {stored:.9f}".rstrip("0").rstrip(".")
        right = {**start, "ha": "right"}
        label(axes, (424, top), words, DARK, 12, **right)
        faces = "w" + "n" * exponent + "p" * fraction
        colors = {"w": "white", "n": NIGHT, "p": TINTS[STREAM]}
        for place, (bit, face) in enumerate(
            zip(bits(value, dtype), faces, strict=True)
        ):
            corner = (left + side * place, top - 32)
            is_marked = stored == value and face == "p" and bit == "1"
            fill = POSITIONS if is_marked else colors[face]
            look = {"facecolor": fill, "edgecolor": PALE, "lw": 0.8}
            rectangle(axes, corner, (side, 20), **look)
            middle = (corner[0] + side / 2, corner[1] + 10)
            ink = "white" if face == "n" or is_marked else DARK
            label(axes, middle, bit, ink, 10.5, va="center_baseline")
        told.append(
            f"{name}, {exponent} bits of exponent and {fraction} of fraction, "
            f"{words}"
        )
    legend = (("sign", "white"), ("exponent", NIGHT), ("fraction", PALE))
    x = left
    for words, color in legend:
        face = TINTS[STREAM] if color == PALE else color
        look = {"facecolor": face, "edgecolor": PALE, "lw": 0.8}
        rectangle(axes, (x, 10), (side, side), **look)
        label(axes, (x + 20, 17), words, DARK, 12, **start)
        x += 52 + 8 * len(words)
    alt = f"The number {value:g} in three formats: {'; '.join(told)}."
    return figure, alt


def gradients(sizes: Tensor, scales: Sequence[float]) -> "tuple[Figure, str]":
    """Sizes of gradients (n,) over what float16 holds, a panel for a scale.

    They're divided by the batch size of 4,096. What becomes zero is red.
    """
    figure, panels = chart(WIDTH, 3.6, len(scales), 1, sharex=True)
    powers = sizes[sizes > 0].log2()
    edges = torch.arange(-50.0, 21.0)
    told = []
    for axes, scale in zip(panels, scales, strict=True):
        lost = (sizes * scale).half() == 0
        share = lost.float().mean().item()
        over = (sizes * scale).half().isinf().float().mean().item()
        moved = powers + torch.tensor(float(scale)).log2()
        counts = torch.histogram(moved, edges).hist / len(sizes)
        dead = edges[:-1] < ZERO
        colors = [CLASS if gone else STREAM for gone in dead.tolist()]
        middles = (edges[:-1] + 0.5).tolist()
        axes.bar(middles, counts.tolist(), width=0.9, color=colors)
        axes.axvspan(ZERO, COARSE, color=PALE, alpha=0.14, lw=0)
        axes.axvspan(COARSE, OVER, color=PALE, alpha=0.34, lw=0)
        axes.set(yticks=[], xlim=(-48, 20))
        then = f"then times {scale:,.0f}"
        name = "\N{DIVISION SIGN} 4,096" if scale == 1 else then
        words = f"{name}:\n{share:.0%} become 0"
        axes.text(
            0.01,
            0.95,
            words,
            transform=axes.transAxes,
            va="top",
            fontsize=12,
            color=CLASS if share > 0.01 else DARK,
        )
        bare(axes, "top", "right", "left")
        told.append(f"{name}, {share:.0%} become 0 and {over:.0%} overflow")
    names = {
        "fewer\nbits": (ZERO + COARSE) / 2,
        "all bits": (COARSE + OVER) / 2,
    }
    for words, middle in names.items():
        look = {"ha": "center", "va": "top", "fontsize": 12, "color": DARK}
        place = panels[0].get_xaxis_transform()
        panels[0].text(middle, 0.95, words, transform=place, **look)
    ticks = range(-45, 20, 15)
    panels[-1].set_xticks(ticks, [f"$2^{{{tick}}}$" for tick in ticks])
    panels[-1].tick_params(labelsize=12)
    words = "size of a gradient (shaded: what float16 holds)"
    panels[-1].set_xlabel(words, fontsize=12)
    alt = f"Sizes of gradients over the range of float16: {'; '.join(told)}."
    return figure, alt


def mixed_step() -> "tuple[Figure, str]":
    """A training step in mixed precision: each box with its line of code."""
    figure, axes = canvas(400, 500, opaque=True)
    steps = (
        ("float32   weights  $w$", NIGHT, "model.parameters()"),
        (
            r"16 bits   forward to the loss  $\ell$",
            POSITIONS,
            "with torch.autocast(..., dtype):",
        ),
        (
            r"16 bits   backward from  $s\,\ell$",
            POSITIONS,
            "(loss * scale).backward()",
        ),
        (r"float32   divide by  $s$, check", NIGHT, "gradient /= scale"),
        ("float32   step, or skip it", NIGHT, "optimizer.step()"),
    )
    tops = column(axes, 218, 316, steps, top=470, pitch=105, is_bold=True)
    line(axes, [(60, tops[-1]), (26, tops[-1]), (26, tops[0])])
    arrow(axes, (26, tops[0]), (60, tops[0]))
    label(axes, (14, (tops[0] + tops[-1]) / 2), "next batch", rotation=90)
    alt = (
        "A step in mixed precision, five boxes from top to bottom, each with "
        "its line of code: the weights in float32; forward in 16 bits to the "
        "loss; backward in 16 bits from the loss times a scale; in float32 the "
        "gradients are divided by the scale and checked; in float32 the "
        "optimizer steps, or skips. An arrow leads back to the next batch."
    )
    return figure, alt


def rescue(
    losses: Mapping[str, Tensor], scales: Sequence[float]
) -> "tuple[Figure, str]":
    """Losses (steps,) of several runs, and the scale of the last one."""
    figure, (upper, lower) = chart(
        WIDTH, 4.0, 2, 1, sharex=True, height_ratios=(2, 1)
    )
    colors = ("0.55", CLASS, POSITIONS)
    told = []
    for (name, values), color in zip(losses.items(), colors, strict=True):
        means = [each.mean().item() for each in values.split(10)]
        steps = [10 * turn + 5 for turn in range(len(means))]
        upper.plot(steps, means, color=color, linewidth=2.5, label=name)
        told.append(f"{name}, {means[0]:.1f} to {means[-1]:.1f}")
    upper.set_ylabel("loss, mean of 10 steps", fontsize=12)
    upper.legend(frameon=False, fontsize=12)
    lower.step(range(len(scales)), scales, color=POSITIONS, linewidth=2)
    lower.set_yscale("log", base=2)
    lower.set_ylabel("scale", fontsize=12)
    lower.set_xlabel("step", fontsize=12)
    for axes in (upper, lower):
        bare(axes)
    alt = (
        f"Training losses: {'; '.join(told)}. Below, the scale of the last "
        f"run, from {scales[0]:g} to {scales[-1]:,.0f}."
    )
    return figure, alt


def kept(
    model: nn.Module, images: Tensor, dtype: torch.dtype | None = None
) -> dict[str, int]:
    """Bytes that a ViT's forward pass keeps for the backward pass, by part.

    With autocast to `dtype` if it's given. Parameters don't count.
    """
    part, totals = ["image"], dict.fromkeys(PARTS, 0)
    # what is held lives on, so that no other gets its number
    held = {id(x): x for x in map(storage, model.parameters())}

    def keep(tensor: Tensor) -> Tensor:
        is_square = tensor.ndim > 2 and len({*tensor.shape[-2:]}) == 1
        is_map = is_square and part[-1] == "attention"
        each = storage(tensor)
        if id(each) not in held:
            held[id(each)] = each
            totals["attention maps" if is_map else part[-1]] += each.nbytes()
        return tensor

    def enter(name: str) -> Any:
        return lambda *_: part.append(name)

    def leave(*_: Any) -> None:
        part.pop()

    handles = []
    for name, module in model.named_modules():
        if name.split(".")[-1] in MODULES:
            inside = enter(MODULES[name.split(".")[-1]])
            handles.append(module.register_forward_pre_hook(inside))
            handles.append(module.register_forward_hook(leave))
    keep(images)
    part.append("norms")
    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda each: each)
    with hooks, torch.autocast("cpu", dtype, enabled=dtype is not None):
        model(images)
    for handle in handles:
        handle.remove()
    return totals


def storage(tensor: Tensor) -> torch.UntypedStorage:
    """What holds the numbers of a tensor and of its views."""
    return tensor.untyped_storage()


def memory(kept: Mapping[str, Mapping[str, float]]) -> "tuple[Figure, str]":
    """Megabytes per image that are kept for the backward pass, by part."""
    figure, axes = chart(WIDTH, 0.72 * len(kept) + 1.3)
    told = []
    for row, (name, parts) in enumerate(kept.items()):
        left = 0.0
        for part, color in PARTS.items():
            width = parts.get(part, 0.0)
            look = {"color": color, "height": 0.62, "edgecolor": "white"}
            axes.barh(row, width, left=left, **look)
            left += width
        axes.text(left + 0.5, row, f"{left:.1f}", va="center", fontsize=12)
        listed = ", ".join(f"{part} {x:.1f}" for part, x in parts.items() if x)
        told.append(f"{name}, {left:.1f} in all ({listed})")
    axes.set_yticks(range(len(kept)), [*kept], fontsize=12)
    widest = max(sum(parts.values()) for parts in kept.values())
    axes.set(ylim=(len(kept) - 0.5, -0.5), xlim=(0, 1.15 * widest))
    axes.set_xlabel("MB per image, kept for the backward pass", fontsize=12)
    _legend(figure, PARTS)
    bare(axes)
    return figure, f"Megabytes that an image keeps: {'; '.join(told)}."


def _legend(figure: "Figure", colors: Mapping[str, str]) -> None:
    """Names beside squares of their colours, above the axes."""
    from matplotlib.patches import Patch

    # matplotlib fills columns, and we read rows
    names = [name for first in range(3) for name in [*colors][first::3]]
    figure.legend(
        [Patch(color=colors[name]) for name in names],
        names,
        loc="outside upper center",
        ncols=3,
        fontsize=11,
        frameon=False,
        handlelength=1,
        columnspacing=1,
    )


def now(device: torch.device) -> float:
    """Seconds that the CPU has worked; on a GPU a clock, once it's done."""
    if device.type not in ("cuda", "mps"):
        return time.process_time()
    torch.accelerator.synchronize()
    return time.perf_counter()


class Stopwatch(TorchDispatchMode):
    """Adds up the seconds of PyTorch's operations, by kind."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.seconds = dict.fromkeys((*KINDS, REST), 0.0)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        kind = next((x for x, names in KINDS.items() if name in names), REST)
        begin = now(self.device)
        result = func(*args, **(kwargs or {}))
        self.seconds[kind] += now(self.device) - begin
        return result


def times_by_kind(
    run: Callable[[], object], device: torch.device
) -> dict[str, float]:
    """Seconds of one call by kind of operation, the longest first.

    What isn't a kind of KINDS is under "the rest", at the end.
    """
    with Stopwatch(device) as stopwatch:
        run()
    ordered = sorted(KINDS, key=lambda kind: -stopwatch.seconds[kind])
    return {kind: stopwatch.seconds[kind] for kind in (*ordered, REST)}


def profile_bars(times: Mapping[str, float]) -> "tuple[Figure, str]":
    """The share of each kind of operation in the time of a step."""
    figure, axes = chart(WIDTH, 0.42 * len(times) + 0.7)
    shares = {x: 100 * each / sum(times.values()) for x, each in times.items()}
    colors = [POSITIONS if x == "products" else PALE for x in shares]
    axes.barh([*shares], [*shares.values()], color=colors, height=0.7)
    for row, share in enumerate(shares.values()):
        note(axes, f"{share:.0f}%", (share, row), (4, -4), 12)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(shares.values()))
    axes.set_xticks([])
    axes.tick_params(labelsize=12, left=False)
    bare(axes, "top", "right", "bottom")
    told = ", ".join(f"{name} {share:.0f}%" for name, share in shares.items())
    return figure, f"Where the time of a training step goes: {told}."


def roofline(
    peak: float, bandwidth: float, works: Sequence[Work]
) -> "tuple[Figure, str]":
    """Operations a second over operations per byte, under the roof.

    The peak is in 1e9 operations a second, the bandwidth in 1e9 bytes a second.
    """
    figure, axes = chart(WIDTH, 4.0)
    near, far, ridge = 0.04, 600.0, peak / bandwidth
    roof = [near * bandwidth, peak, peak]
    axes.plot([near, ridge, far], roof, color=STREAM, linewidth=2)
    words, middle = f"memory:\n{bandwidth:.0f} GB/s", ridge / 3
    place = (middle, middle * bandwidth)
    note(axes, words, place, (-8, 2), 11.5, ha="right", color=DARK)
    words = f"arithmetic: {peak:.0f} billion a second"
    note(axes, words, (far, peak), (-2, 5), 11.5, ha="right", color=DARK)
    for each in works:
        point = (each.intensity, each.speed)
        axes.plot(*point, "o", color=POSITIONS, markersize=8)
        # two at one place: one name above, one below
        beside = [x for x in works if 0.8 < x.intensity / each.intensity < 1.25]
        rank = sorted(x.speed for x in beside).index(each.speed)
        offset = (9, -4 + 7 * (2 * rank - len(beside) + 1))
        offset = (-8, -17) if each.intensity > 10 else offset
        note(axes, each.name, point, offset, 12, color=DARK)
    axes.set(xscale="log", yscale="log", xlim=(near, far))
    axes.set_xlabel("operations per byte moved", fontsize=12)
    axes.set_ylabel("billion operations a second", fontsize=12)
    axes.tick_params(labelsize=11)
    bare(axes)
    named = "; ".join(f"{each.name} {each.speed:.1f}" for each in works)
    alt = (
        f"A roofline: it rises with {bandwidth:.0f} billion bytes a second to "
        f"{peak:.0f} billion operations a second, at {ridge:.0f} operations "
        f"per byte. Under it {named}."
    )
    return figure, alt


def ladder(
    times: Mapping[str, Mapping[str, float]], card: str, last: str
) -> "tuple[Figure, str]":
    """How many times as fast a step is, by network, up to the last line.

    What comes after it has its place and its pale name, and no bars yet.
    """
    every = [*next(iter(times.values()))]
    lines = every[: every.index(last) + 1]
    highest = max(max(reached.values()) for reached in times.values())
    figure, axes = chart(WIDTH, 0.5 * len(every) + 1.1)
    told = []
    for (name, reached), color, offset in zip(
        times.items(), (PATCHES, POSITIONS), (-0.2, 0.2), strict=False
    ):
        values = [reached[line] for line in lines]
        rows = [row + offset for row in range(len(lines))]
        axes.barh(rows, values, 0.37, color=color, label=name)
        for place in zip(values, rows, strict=True):
            beside = (max(place[0], 1), place[1])  # right of the line
            note(axes, f"{place[0]:.1f}", beside, (4, -4), 11)
        listed = ", ".join(f"{reached[line]:.1f} {line}" for line in lines)
        told.append(f"{name}: {listed}")
    axes.axvline(1, color=DARK, linewidth=1)
    names = [every[0], *(f"+ {each}" for each in every[1:])]  # each one stays
    axes.set_yticks(range(len(every)), names)
    for name in axes.get_yticklabels()[len(lines) :]:
        name.set_color(PALE)
    axes.set(xlim=(0, 1.1 * highest), ylim=(len(every) - 0.5, -0.5))
    axes.tick_params(labelsize=11)
    axes.set_xlabel("images a second, times those of float32", fontsize=12)
    axes.legend(frameon=False, fontsize=12, loc="upper right")
    axes.set_title(card, fontsize=11)
    bare(axes)
    alt = f"Times as fast on {card}, line by line. {'. '.join(told)}."
    return figure, alt


def over_size(
    ratios: Mapping[str, Mapping[int, float]],
) -> "tuple[Figure, str]":
    """How a ViT compares with a ResNet, by measure, over the side."""
    figure, axes = chart(WIDTH, 3.2)
    told = []
    colors = (POSITIONS, PATCHES)
    for (name, points), color in zip(ratios.items(), colors, strict=False):
        sides, values = [*points], [*points.values()]
        look = {"marker": "o", "markersize": 5, "linewidth": 2.5}
        axes.plot(sides, values, color=color, label=name, **look)
        listed = ", ".join(f"{y:.2f} at {x}" for x, y in points.items())
        told.append(f"{name}: {listed}")
    axes.axhline(1, color=DARK, linewidth=1)
    note(axes, "the ResNet", (sides[0], 1), (0, -13), 11.5, color=DARK)
    axes.set(xscale="log")
    axes.set_ylim(0, 1.15 * max(axes.get_ylim()[1], 1))
    ticks = [side for side in sides if side in (64, 128, 224, 384, 512)]
    axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
    axes.minorticks_off()
    axes.tick_params(labelsize=11)
    axes.set_xlabel("side of the image in pixels", fontsize=12)
    axes.set_ylabel("ViT over ResNet", fontsize=12)
    axes.legend(frameon=False, fontsize=12, loc="lower right")
    bare(axes)
    return figure, f"A ViT's multiples of a ResNet. {'. '.join(told)}."
