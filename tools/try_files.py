"""What the page "Try it" loads: weights, digits and photographs as scripts.

    python tools/try_files.py FOLDER

A page opened from disk may run a script beside it, but not read a file. So the
weights are in scripts, as 16-bit floats in base64; `book/_static/try/vit.js`
reads them. The build of the site writes all of it; equal sources give equal
bytes.
"""

import json
import sys
import zlib
from base64 import b64encode
from importlib import resources
from io import BytesIO
from pathlib import Path

import torch
from picture import seen

import vitedu
from vitedu.data import load_dataset, photo
from vitedu.data.readers.photos import PHOTOS
from vitedu.errors import UserError
from vitedu.model import SinCos2D, ViT, ViTConfig, patchify
from vitedu.model.mae import MAEConfig

MODELS = {
    "mnist-tiny": "mnist-tiny",
    "mae-mnist": "mae-mnist",
    "ViT-Ti/16": "vit-ti-16",
}
PART = 1_440_000  # bytes of weights in a script, so that loading shows progress
# What the engine reads; all other fields have to be as in the paper.
READ = ("image_size", "patch_size", "in_channels", "num_classes", "embed_dim")
READ += ("depth", "num_heads", "mlp_dim", "pool", "norm_eps")
DECODER = ("decoder_dim", "decoder_depth", "decoder_heads")
SIDE = 112  # of the small photographs, in pixels
SIDE_SEEN = 320  # of the front page's
LISTENING = 7  # its block
WALK = 33  # the patch that is followed: row 3, column 6, of the forehead


def assigned(target: str, value: object) -> bytes:
    """A script that assigns a value."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"{target} = {text};\n".encode()


def base64(content: bytes) -> str:
    """Bytes as a string can hold them."""
    return b64encode(content).decode()


def read_fields(config: ViTConfig) -> dict[str, object]:
    """What the engine wants to know. UserError: it can't compute this."""
    values = {name: getattr(config, name) for name in READ}
    if isinstance(config, MAEConfig):
        values |= {name: getattr(config, name) for name in DECODER}
        others = {"class_token": False, "position": SinCos2D()}
        known = MAEConfig(**values, **others, normalised=False)
    else:
        known = ViTConfig(**values)
    if config != known or config.pool not in ("token", "mean"):
        raise UserError(
            "the page's network computes the paper's ViT with the class token "
            "or the mean for a head, a masked autoencoder as mae-mnist, and "
            f"nothing else; this is {config}"
        )
    return values


def weights(model: ViT) -> dict[str, object]:
    """A model as the page reads it.

    UserError: the page can't compute it, or 16 bits can't hold its weights.
    """
    state = {name: x.half() for name, x in model.state_dict().items()}
    for name in ("pos_embed", "decoder_pos_embed"):
        if isinstance(model.config, MAEConfig):  # computed, so in no file
            state[name] = getattr(model, name)().half()
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise UserError(f"{name} is too large for 16 bits")
    spec = model.preprocess
    return {
        "config": read_fields(model.config),
        "class_names": model.class_names,
        "preprocess": spec.to_json(),
        "tensors": [[name, x.shape] for name, x in state.items()],
        "data": b"".join(
            x.numpy().astype("<f2").tobytes() for x in state.values()
        ),
    }


def scripts(name: str) -> dict[str, bytes]:
    """A model's scripts: the first with all but most of the weights."""
    packed = weights(vitedu.load(name))
    data = packed["data"]
    parts = [data[i : i + PART] for i in range(0, len(data), PART)]
    place = f"vitedu.packed[{json.dumps(name)}]"
    first = assigned(place, packed | {"data": [base64(parts[0])]})
    if len(parts) == 1:
        return {f"{MODELS[name]}.js": first}
    rest = [
        assigned(f"{place}.data[{i}]", base64(part))
        for i, part in enumerate(parts[1:], start=1)
    ]
    return {
        f"{MODELS[name]}-{number}.js": content
        for number, content in enumerate([first, *rest], start=1)
    }


def digits() -> str:
    """The second test image of each class: ten times 28 x 28 bytes."""
    test = load_dataset("digits").test
    chosen = [
        test.images[(test.labels == digit).nonzero()[1, 0], 0]
        for digit in range(10)
    ]
    return base64(torch.stack(chosen).numpy().tobytes())


def digit_set() -> dict[str, object]:
    """All digits of the package, compressed: images, then labels."""
    data = load_dataset("digits")
    parts = (data.train, data.test)
    images = b"".join(part.images.numpy().tobytes() for part in parts)
    labels = b"".join(bytes(part.labels.tolist()) for part in parts)
    return {
        "train": len(data.train.labels),
        "count": sum(len(part.labels) for part in parts),
        "data": base64(zlib.compress(images + labels, level=9)),
    }


def small(name: str) -> bytes:
    """A photograph's middle as a small JPEG."""
    whole = photo(name)
    short = min(whole.size)
    left, top = ((side - short) // 2 for side in whole.size)
    square = whole.crop((left, top, left + short, top + short))
    content = BytesIO()
    square.resize((SIDE, SIDE)).save(content, "JPEG", quality=80)
    return content.getvalue()


def whole(name: str) -> str:
    """A photograph as an address that holds it: a canvas may read it."""
    file = resources.files("vitedu.data") / "photos" / f"{name}.jpg"
    return f"data:image/jpeg;base64,{base64(file.read_bytes())}"


@torch.no_grad()
def hopper() -> dict[str, str]:
    """The front page's Hopper: a JPEG, and whom each patch listens to.

    A byte for each pair of patches: the mean of the heads of block 7, from the
    least (0) to the most (255) that a patch takes from any.
    """
    model = vitedu.load("ViT-Ti/16")
    whole = photo("hopper")
    with vitedu.record_attention(model) as maps:
        model(vitedu.preprocess(model, whole))
    shares = maps[LISTENING - 1][0].mean(dim=0)[1:, 1:]  # of patches alone
    least, most = shares.aminmax(dim=1, keepdim=True)
    levels = ((shares - least) / (most - least) * 255).round().byte()
    content = BytesIO()
    square = seen(whole, model).resize((SIDE_SEEN, SIDE_SEEN))
    square.save(content, "JPEG", quality=85)
    return {
        "picture": f"data:image/jpeg;base64,{base64(content.getvalue())}",
        "maps": base64(levels.numpy().tobytes()),
    }


@torch.no_grad()
def walk() -> dict[str, object]:
    """One patch of Hopper on its way through a head, in true numbers.

    Its pixels, its word, the position; in the block of `hopper`, the head that
    looks at one patch most: query, all scores, and what the three patches with
    the most contribute: their keys, shares and values.
    """
    model = vitedu.load("ViT-Ti/16")
    block, d = model.blocks[LISTENING - 1], model.config.embed_dim
    images = vitedu.preprocess(model, photo("hopper"))
    tokens = model.embed(images)
    for before in model.blocks[: LISTENING - 1]:
        tokens = before(tokens)
    qkv = block.attn.qkv(block.norm1(tokens))[0].view(-1, 3, 3, d // 3)
    q, k, v = qkv.permute(1, 2, 0, 3)  # (heads, n + 1, hd)
    scores = (k @ q[:, WALK + 1, :, None])[..., 0] / (d // 3) ** 0.5
    shares = scores.softmax(dim=-1)
    head = int(shares[:, 1:].amax(dim=-1).argmax())
    most = shares[head, 1:].topk(3).indices
    patches = patchify(images, model.config.patch_size)[0, WALK]
    words = model.patch_embed(images)[0, WALK]

    def told(numbers: torch.Tensor) -> object:
        return (numbers.double() * 1000).round().div(1000).tolist()

    return {
        "patch": WALK,
        "block": LISTENING,
        "head": head + 1,
        "pixels": told(patches),
        "word": told(words),
        "position": told(model.pos_embed[0, WALK + 1]),
        "query": told(q[head, WALK + 1]),
        "scores": told(scores[head]),
        "most": most.tolist(),
        "keys": told(k[head, most + 1]),
        "values": told(v[head, most + 1]),
        "answer": told(shares[head] @ v[head]),
    }


def write(folder: Path) -> None:
    """Write all files into `folder`, which is made if it isn't there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        for file, content in scripts(name).items():
            (folder / file).write_bytes(content)
    (folder / "digits.js").write_bytes(assigned("vitedu.digits", digits()))
    content = assigned("vitedu.digitSet", digit_set())
    (folder / "digit-set.js").write_bytes(content)
    content = assigned("vitedu.hopper", hopper())
    (folder / "hopper.js").write_bytes(content)
    (folder / "walk-numbers.js").write_bytes(assigned("vitedu.walk", walk()))
    photos = {name: whole(name) for name in PHOTOS}
    (folder / "photos.js").write_bytes(assigned("vitedu.photos", photos))
    for name in PHOTOS:
        (folder / f"{name}.jpg").write_bytes(small(name))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(Path(sys.argv[1]))
