"""benchmarks/gpu_day.py: every lot runs small; what it is refused, and why."""

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from vitedu import results

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(BENCHMARKS)
    gpu_day = importlib.import_module("gpu_day")
    lots = importlib.import_module("lots")
    ladder = importlib.import_module("lots.ladder")
    steps = importlib.import_module("lots.steps")
    pack = importlib.import_module("lots.pack")
    cifar = importlib.import_module("lots.cifar")

# what PyTorch says where it can't use a GPU
TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 11040). Please "
    "update your GPU driver"
)
NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an "
    "NVIDIA GPU and installed a driver from\nhttp://www.nvidia.com/"
)
NO_CUDA = "Torch not compiled with CUDA enabled"


@pytest.mark.slow
@pytest.mark.parametrize("lot", gpu_day.LOTS, ids=lambda lot: lot.name)
def test_every_lot_runs_small_and_measures_nothing_twice(lot, tmp_path, capsys):
    words = ["--smoke", "--lot", f"{lot.number}"]
    words += ["--folder", f"{tmp_path}/lots", "--results", f"{tmp_path}"]
    assert gpu_day.main(words) == 0
    first = results.read_file(tmp_path / f"gpu-{lot.name}.json")
    assert first["tier"] == "smoke" and first["status"] == "finished"
    assert first["name"] == f"gpu-{lot.name}" and first["metrics"]
    said = capsys.readouterr()
    assert said.out.count("\n") > 2 and "gpu_day:" not in said.err

    assert gpu_day.main(words) == 0  # reads its pieces
    again = results.read_file(tmp_path / f"gpu-{lot.name}.json")
    assert again["metrics"] == first["metrics"]


def test_every_lot_has_its_row_in_the_ledger():
    rows = tomllib.loads((BENCHMARKS.parent / "book/ledger.toml").read_text())
    ours = {row["id"]: row["command"] for row in rows["ours"]}
    for lot in gpu_day.LOTS:
        command = f"python benchmarks/gpu_day.py --lot {lot.number}"
        assert ours[f"gpu-{lot.name}"].startswith(command)


# --- bad input


def fake_lot(run, number=1, needs=()):
    return gpu_day.Lot(number, f"fake{number}", 1, "a test", run, needs)


def outcome(pieces, still_open):
    metrics = {name: {"value": 1.0, "unit": "pieces"} for name in pieces}
    return lots.Outcome({}, metrics, lots.RANDOM, still_open)


def whole(options):
    yield outcome(["a"], [])


def without_room(options):
    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate")
    yield


def without_reason(options):
    yield outcome(["a"], ["b"])
    raise RuntimeError("a mistake")


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def refuse():
        raise RuntimeError(TOO_OLD)

    monkeypatch.setattr(torch.cuda, "init", refuse)


@pytest.mark.parametrize(
    "error",
    [RuntimeError(TOO_OLD), RuntimeError(NO_DRIVER), AssertionError(NO_CUDA)],
)
def test_without_a_gpu_no_record_is_touched(
    error, tmp_path, no_gpu, monkeypatch, capsys
):
    def refuse():
        raise error

    monkeypatch.setattr(torch.cuda, "init", refuse)
    (tmp_path / "gpu-steps.json").write_text("as it was")
    assert gpu_day.main(["--all", "--results", f"{tmp_path}"]) == 2
    said = capsys.readouterr().err
    why = str(error).partition(".")[0].partition(" (")[0]
    assert said.startswith(f"gpu_day: no GPU: {why}")
    assert said.endswith("--smoke runs every lot small on the CPU\n")
    assert said.count("\n") == 1
    assert (tmp_path / "gpu-steps.json").read_text() == "as it was"


@pytest.mark.parametrize(
    "words, sentence",
    [
        ([], "choose --list, --lot N, --all, --smoke or --pack"),
        (["--lot", "99"], "there is no lot 99; --list shows those from 1 to"),
        (["--all"], "no GPU: The NVIDIA driver on your system is too old"),
        (["--lot", "1", "--device", "cpu"], "measure a CUDA GPU, not the"),
        (["--smoke", "--device", "tpu"], "tpu"),
    ],
)
def test_what_cannot_run_is_one_sentence(words, sentence, no_gpu, capsys):
    assert gpu_day.main(words) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1


def test_a_lot_without_its_data_leaves_the_others_alone(
    tmp_path, monkeypatch, capsys
):
    hungry = fake_lot(whole, 1, needs=("cifar10.npz",))
    monkeypatch.setattr(gpu_day, "LOTS", (hungry, fake_lot(whole, 2)))
    # not a smoke test, which has stand-ins
    cpu = torch.device("cpu")
    monkeypatch.setattr(gpu_day, "the_device", lambda *asked: cpu)
    (tmp_path / "gpu-fake1.json").write_text("as it was")
    words = ["--all", "--results", f"{tmp_path}", "--folder", f"{tmp_path}/x"]
    assert gpu_day.main(words) == 2
    assert gpu_day.main([*words, "--data", f"{tmp_path}"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "lot fake1: it needs cifar10.npz" in first and "--data" in first
    assert f"{tmp_path} lacks cifar10.npz" in second
    assert (tmp_path / "gpu-fake1.json").read_text() == "as it was"
    assert results.read_file(tmp_path / "gpu-fake2.json")["metrics"]


def test_a_card_that_is_too_small_is_one_sentence(
    tmp_path, monkeypatch, capsys
):
    room = (1_000_000_000, 4_000_000_000)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: room)
    both = fake_lot(without_room, 1), fake_lot(whole, 2)
    monkeypatch.setattr(gpu_day, "LOTS", both)
    (tmp_path / "gpu-steps.json").write_text("as it was")
    assert gpu_day.main(["--smoke", "--results", f"{tmp_path}"]) == 2
    said = capsys.readouterr().err
    assert "1.0 of 4.0 GB free" in said and said.count("\n") == 1
    kept = {path.name for path in tmp_path.glob("*.json")}
    assert kept == {"gpu-steps.json", "gpu-fake2.json"}
    assert (tmp_path / "gpu-steps.json").read_text() == "as it was"


def test_a_lot_that_breaks_off_keeps_what_it_measured(
    tmp_path, monkeypatch, capsys
):
    both = fake_lot(without_reason, 1), fake_lot(whole, 2)
    monkeypatch.setattr(gpu_day, "LOTS", both)
    assert gpu_day.main(["--smoke", "--results", f"{tmp_path}"]) == 1
    capsys.readouterr()
    kept = results.read_file(tmp_path / "gpu-fake1.json")
    assert kept["status"] == "interrupted" and kept["notes"] == "open: b"
    assert results.read_file(tmp_path / "gpu-fake2.json")["metrics"]


def test_a_piece_that_breaks_off_is_no_success(tmp_path, monkeypatch, capsys):
    def broken():
        raise RuntimeError("a mistake")

    def run(options):
        pieces = {"a": broken, "b": dict}
        yield from lots.in_pieces(options, pieces, outcome)

    monkeypatch.setattr(gpu_day, "LOTS", (fake_lot(run),))
    assert gpu_day.main(["--smoke", "--results", f"{tmp_path}"]) == 1
    assert "RuntimeError: a mistake" in capsys.readouterr().err
    assert results.read_file(tmp_path / "gpu-fake1.json")["notes"] == "open: a"


def test_a_lot_stops_between_pieces_once_the_minutes_are_spent(
    tmp_path, monkeypatch, capsys
):
    def endless(options):
        while True:
            yield outcome(["a"], ["b"])

    both = fake_lot(endless, 1), fake_lot(whole, 2)
    monkeypatch.setattr(gpu_day, "LOTS", both)
    words = ["--smoke", "--results", f"{tmp_path}", "--minutes", "0"]
    monkeypatch.setattr(gpu_day.time, "monotonic", iter(range(99)).__next__)
    assert gpu_day.main(words) == 0
    assert "not begun" in capsys.readouterr().out


def test_another_card_does_not_replace_a_record(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu_day, "LOTS", (fake_lot(whole),))
    words = ["--smoke", "--results", f"{tmp_path}"]
    assert gpu_day.main(words) == gpu_day.main(words) == 0
    before = (tmp_path / "gpu-fake1.json").read_bytes()
    monkeypatch.setattr(results, "hardware", lambda device: "Tesla T4")
    assert gpu_day.main(words) == 0
    assert (tmp_path / "gpu-fake1.json").read_bytes() == before
    other = results.read_file(tmp_path / "gpu-fake1-tesla-t4.json")
    assert other["hardware"] == "Tesla T4"


def test_what_is_packed_is_what_lots_need(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("VITEDU_DATA", raising=False)
    assert gpu_day.main(["--pack", f"{tmp_path}/packed"]) == 2
    monkeypatch.setenv("VITEDU_DATA", f"{tmp_path}")
    for name in pack.PARTS[1:]:
        (tmp_path / name / "train").mkdir(parents=True)
        (tmp_path / name / "train/a.jpg").write_bytes(b"jpeg")
    assert gpu_day.main(["--pack", f"{tmp_path}/packed"]) == 2
    unset, missing = capsys.readouterr().err.splitlines()
    assert "set VITEDU_DATA" in unset and "lacks cifar10-jpeg" in missing
    (tmp_path / pack.CIFAR).mkdir()
    (tmp_path / pack.CIFAR / "train.npz").write_bytes(b"npz")
    assert gpu_day.main(["--pack", f"{tmp_path}/packed"]) == 0
    assert (tmp_path / "packed/ants-bees/train/a.jpg").read_bytes() == b"jpeg"
    needed = {name for lot in gpu_day.LOTS for name in lot.needs}
    assert needed == set(pack.PARTS)


# --- pieces


def options(folder):
    return lots.Options(torch.device("cpu"), None, folder, True)


def test_a_lot_killed_in_a_piece_goes_on_with_it(tmp_path):
    counts = {"a": 0, "b": 0}

    def measure(name, is_killed=False):
        counts[name] += 1
        if is_killed:
            raise KeyboardInterrupt
        return {"speed": counts[name]}

    def run(is_killed):
        pieces = {
            "a": lambda: measure("a"),
            "b": lambda: measure("b", is_killed),
        }
        each = lots.in_pieces(
            options(tmp_path), pieces, lambda done, left: outcome(done, left)
        )
        return each

    killed = run(True)
    assert next(killed).open == ["b"]
    with pytest.raises(KeyboardInterrupt):
        next(killed)
    assert [each.open for each in run(False)] == [["b"], []]
    assert counts == {"a": 1, "b": 2}


@pytest.mark.slow
def test_a_lot_killed_by_the_system_goes_on_where_it_was(tmp_path):
    words = ["--smoke", "--lot", "3", "--folder", f"{tmp_path}/lots"]
    words += ["--results", f"{tmp_path}"]
    command = [sys.executable, f"{BENCHMARKS}/gpu_day.py", *words]
    killed = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    measured = (line for line in killed.stdout if "images/s" in line)
    next(measured), next(measured)  # so the first is written
    killed.kill()
    killed.communicate()
    pieces = [*tmp_path.glob("lots/*/inference/*-*.json")]
    before = {path: path.read_bytes() for path in pieces}
    assert killed.returncode < 0 and before
    assert gpu_day.main(words) == 0
    assert {path: path.read_bytes() for path in before} == before
    record = results.read_file(tmp_path / "gpu-inference.json")
    assert record["status"] == "finished"


def test_a_piece_that_the_card_has_no_room_for_is_left_out(tmp_path, capsys):
    def too_large():
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    values = lots.attempt(options(tmp_path), "large", too_large)
    assert "memory" in values["away"]
    assert lots.attempt(options(tmp_path), "large", dict) == values


@pytest.mark.parametrize("limit", [1, 2, 3, 100, 255, 256, 257, 1000, 5000])
def test_the_largest_batch_is_found_to_a_sixteenth(limit):
    tried = []

    def works(size):
        tried.append(size)
        return size <= limit

    found = steps.search(works, 256)
    assert found <= limit <= max(found + found // 8, found + 1)
    assert len(tried) < 16
    assert steps.search(lambda size: False, 256) == 0


@pytest.mark.parametrize(
    "name, kind",
    [
        ("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NTN", "products"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n", "products"),
        ("cutlass::Kernel2<cutlass_80_tensorop_bf16_gemm>", "products"),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "attention"),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_traits>", "attention"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "attention"),
        ("triton_poi_fused_gelu_1", "compiled"),
        ("void at::native::multi_tensor_apply_kernel<FusedAdam>", "optimizer"),
        ("vectorized_layer_norm_kernel<float>", "norms"),
        ("void cudnn::cnn::wgrad2d_grouped_direct_kernel", "convolution"),
        ("elementwise_kernel<direct_copy_kernel_cuda>", "copies and casts"),
        ("vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>", "GELU"),
        ("elementwise_kernel<4, CUDAFunctor_add>", "element by element"),
        ("something_new", "other"),
    ],
)
def test_kernels_are_known_by_their_names(name, kind):
    assert ladder.kind(name) == kind


@pytest.mark.slow
def test_a_stopped_run_on_cifar_goes_on_where_it_was(tmp_path, capsys):
    asked = options(tmp_path)
    late = asked._replace(stop_at=0.0)  # long ago
    probed, stopped = cifar.run(late)
    assert probed.open == stopped.open == ["recipe-0"]
    assert "stopped at step 1," in capsys.readouterr().out
    *_, whole = cifar.run(asked)
    assert whole.open == []
    # a step of its log is the second, so the first was not taken again
    reached = whole.metrics["recipe-0"]
    assert reached["epochs"] == 2 and reached["curve"][0][0] == 2
    again, *_ = cifar.run(asked)
    assert again.metrics["probe/step_ms"] == probed.metrics["probe/step_ms"]
