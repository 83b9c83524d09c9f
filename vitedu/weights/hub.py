"""Weights by name: the package's own, models of the hub, timm's names.

`find("ViT-B/16")` is the folder in the cache of huggingface_hub.
"""

import re
from pathlib import Path

from vitedu.compat import import_timm
from vitedu.data.catalogue import cache_folder, is_offline
from vitedu.errors import UserError, did_you_mean, explained, reason, same_as
from vitedu.files import list_folder
from vitedu.model import HYBRIDS, NAMES
from vitedu.weights.files import IN_FOLDER, has_suffix, shards_in

# what names of timm look like, "vit_tiny_patch16_224.augreg_in21k"
TIMMS = r"[a-z][a-z0-9]*(_[a-z0-9]+)+(\.\w+)?"
BESIDE = ("config.json", "preprocessor_config.json")
# In the package, so that there are trained weights where nothing can be
# fetched. All but the last were trained by the recipes of their names; where
# the last comes from is in NOTICE and tools/embed_model.py.
EMBEDDED = {
    "mnist-tiny": Path(__file__).with_name("mnist-tiny.safetensors"),
    "mae-mnist": Path(__file__).with_name("mae-mnist.safetensors"),
    "shapes-small": Path(__file__).with_name("shapes-small.safetensors"),
    "ViT-Ti/16": Path(__file__).with_name("vit-ti-16.safetensors"),
}
# The weights of Google that a name of the paper's means: those of "How to train
# your ViT?" (AugReg; ImageNet-21k, then ImageNet-1k) where there are any, else
# the paper's own, of which L/32 and R50+ViT-B/16 see 384 pixels and H/14 has no
# head. All are at 224 pixels otherwise, as timm converted them.
HUB = {
    "ViT-S/16": "timm/vit_small_patch16_224.augreg_in21k_ft_in1k",
    "ViT-S/32": "timm/vit_small_patch32_224.augreg_in21k_ft_in1k",
    "ViT-B/8": "timm/vit_base_patch8_224.augreg_in21k_ft_in1k",
    "ViT-B/16": "timm/vit_base_patch16_224.augreg_in21k_ft_in1k",
    "ViT-B/32": "timm/vit_base_patch32_224.augreg_in21k_ft_in1k",
    "ViT-L/16": "timm/vit_large_patch16_224.augreg_in21k_ft_in1k",
    "ViT-L/32": "timm/vit_large_patch32_384.orig_in21k_ft_in1k",
    "ViT-H/14": "timm/vit_huge_patch14_224.orig_in21k",
    "R+ViT-Ti/16": "timm/vit_tiny_r_s16_p8_224.augreg_in21k_ft_in1k",
    "R26+ViT-S/32": "timm/vit_small_r26_s32_224.augreg_in21k_ft_in1k",
    "R50+ViT-B/16": "timm/vit_base_r50_s16_384.orig_in21k_ft_in1k",
    "R50+ViT-L/32": "timm/vit_large_r50_s32_224.augreg_in21k_ft_in1k",
}


class _UnreachableError(Exception):
    """The hub doesn't answer, and a file isn't in its cache."""


def find(name: str) -> Path:
    """The file in the package, or the folder with the files of a hub model.

    `name` is one of `EMBEDDED` or `HUB`, "owner/model" (optionally with
    "hf-hub:" in front), or timm's "vit_tiny_patch16_224.augreg_in21k". What
    isn't cached is downloaded, unless VITEDU_OFFLINE=1.

    UserError: there is no such model, or it isn't here and can't be downloaded.
    """
    if name in EMBEDDED:
        return EMBEDDED[name]
    repository = repository_of(name)
    place = place_of(repository)
    if place.is_dir():
        return place
    cached = fetch(repository, from_cache=True)
    if cached and (is_offline() or is_whole(repository)):
        return cached
    why = "VITEDU_OFFLINE=1 forbids the download"
    if not is_offline():
        try:
            check_reachable(repository)
            return fetch(repository, from_cache=False)
        except _UnreachableError as error:
            why = str(error)
    if cached:
        return cached
    end = ", or take 'ViT-Ti/16', which needs no network"
    raise UserError(
        f"{name!r} is not a file or run folder here, and as a model of the "
        f"hub it could not be downloaded ({why}); put model.safetensors and "
        f"config.json of https://huggingface.co/{repository} into {place}"
        f"{end if name in HUB else ''}"
    )


def place_of(repository: str) -> Path:
    """Folder for a repository's files that were downloaded by hand."""
    return cache_folder() / "weights" / repository.replace("/", "--")


def bare_name(name: str) -> str:
    return HUB.get(name, name).rpartition("/")[2]


def repository_of(name: str) -> str:
    if name in HUB:
        return HUB[name]
    if name in NAMES or name in HYBRIDS:
        known = ", ".join([*EMBEDDED, *HUB])
        raise UserError(
            f"no trained weights of {name!r} are known; vitedu.vit({name!r}) "
            f"builds it without, and there are weights of {known}"
        )
    known = (*EMBEDDED, *HUB)
    is_mistyped = re.fullmatch(r"(r\d*\+)?vit-\w+/\d+", name, re.I)
    if is_mistyped or same_as(name, known):
        end = did_you_mean(name, known)
        raise UserError(f"there are no weights {name!r}; {end}")
    bare = re.sub(r"^hf[-_]hub:", "", name)
    if not has_suffix(bare):
        check_no_path(name)
        if re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", bare):
            return bare
        if re.fullmatch(TIMMS, bare):
            return timm_repository(bare)
    raise UserError(
        f"there is no file or run folder {name!r}, and it is not the name of a "
        "model on the hub, such as 'ViT-B/16' or 'google/vit-base-patch16-224'"
    )


def check_no_path(name: str) -> None:
    folder, slash, _ = name.partition("/")
    is_here = folder != "" and Path(folder).is_dir()
    if not slash or not (is_here or folder == "runs"):
        return
    held = [f"{folder}/{x}" for x in list_folder(folder)] if is_here else []
    end = did_you_mean(name, held) if held else f"{folder}/ has none"
    raise UserError(
        f"there is no file or run folder {name!r} (a model of the hub would be "
        f"'hf-hub:{name}'); {end}"
    )


def timm_repository(name: str) -> str:
    import_timm()
    from timm.models import get_pretrained_cfg

    # where the model is known, and its tag is not
    with explained(f"timm has no weights {name!r}", RuntimeError):
        known = get_pretrained_cfg(name)
    if known is None:
        raise UserError(
            f"there is no file or run folder {name!r}, and timm knows no such "
            "model"
        )
    if not known.hf_hub_id:
        where = known.url or "elsewhere"
        raise UserError(
            f"timm's weights of {name!r} aren't on the hub but at {where}; "
            "fetch them and give their path"
        )
    return known.hf_hub_id


# --- downloads, by huggingface_hub


def check_reachable(repository: str) -> None:
    """_UnreachableError if it is not; one request, where a download retries."""
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url

    try:
        url = hf_hub_url(repository, IN_FOLDER[0])
        get_hf_file_metadata(url, timeout=10)
    except (errors.HfHubHTTPError, errors.HFValidationError):
        return  # fetch_file finds out what it means
    # what the client's HTTP library raises changes with its version
    except Exception as error:
        raise _UnreachableError("the hub does not answer") from error


def fetch(repository: str, *, from_cache: bool) -> Path | None:
    """The folder of a repository's weights; None: they aren't in the cache."""
    found = (fetch_file(repository, x, from_cache) for x in IN_FOLDER)
    weights = next(filter(None, found), None)
    if weights is None and from_cache:
        return None
    if weights is None:
        raise UserError(
            f"the model {repository!r} of the hub has no {IN_FOLDER[0]} or "
            f"{IN_FOLDER[2]}"
        )
    is_index = weights.suffix == ".json"
    shards = {*shards_in(weights).values()} if is_index else ()
    for name in (*sorted(shards), *BESIDE):
        fetch_file(repository, name, from_cache)
    return weights.parent


def is_whole(repository: str) -> bool:
    """Whether the JSON is cached or known absent; timm fetches only weights."""
    from huggingface_hub import try_to_load_from_cache

    return all(try_to_load_from_cache(repository, name) for name in BESIDE)


def fetch_file(repository: str, name: str, from_cache: bool) -> Path | None:
    """A repository's file; None if it, or the cache, doesn't have it."""
    from huggingface_hub import errors, hf_hub_download

    try:
        path = hf_hub_download(repository, name, local_files_only=from_cache)
        return Path(path)
    except errors.LocalEntryNotFoundError as error:
        if from_cache:
            return None
        raise _UnreachableError("the hub does not answer") from error
    except errors.EntryNotFoundError:
        return None
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise UserError(
            f"there is no file or run folder {repository!r}, and no model of "
            "that name on the hub that is open to you"
        ) from None
    # what the client's HTTP library raises changes with its version
    except Exception as error:
        raise _UnreachableError(reason(error)) from error
