"""What TensorBoard serves of the runs that tests/api/viewers.cpp writes: a server is started on them, and asked over HTTP
as each dashboard's page asks it. test_tensorboard.py looks at the same files through TensorBoard's Python readers. Runs in
the environment .deps/formats (tests/formats.txt), which ./dev test --all makes; skipped where there is none.
"""
import json
import os
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

from formats_environment import BUILD, needed

with needed():
    import numpy as np
    import tensorflow as tf
    from google.protobuf import text_format
    from tensorboard import default, program
    from tensorboard.compat.proto import config_pb2, graph_pb2

RUNS = ["mlp", "more", "profile", "train"]


class Server:
    """Of one folder of runs; a free port of this machine."""

    def __init__(self, logs):
        board = program.TensorBoard(plugins=default.get_plugins())
        board.configure(argv=[None, "--logdir", logs, "--port", "0", "--load_fast", "false", "--reload_interval", "1"])
        self.url = board.launch()

    def get(self, path, **arguments):
        query = "?" + urllib.parse.urlencode(arguments) if arguments else ""
        with urllib.request.urlopen(f"{self.url}data/{path}{query}", timeout=60) as answer:
            return answer.read()

    def json(self, path, **arguments):
        return json.loads(self.get(path, **arguments))

    def plugin(self, name, what, **arguments):
        return self.json(f"plugin/{name}/{what}", **arguments)


def loaded(server):
    """Runs and their tags are read in the background; the last thing that is written into `more` is its end."""
    for _ in range(120):
        runs = sorted(server.json("runs"))
        if runs == RUNS and "loss" in server.plugin("scalars", "tags").get("train", {}):
            return
        time.sleep(0.5)
    raise AssertionError(f"TensorBoard knows of the runs {runs}")


def plugins(server):
    """The dashboards that have something to show. Some look for it in the background, once they are asked."""
    expected = {"scalars", "images", "histograms", "distributions", "text", "audio", "pr_curves", "hparams", "projector",
                "graphs", "timeseries"}
    for _ in range(120):
        shown = {name for name, facts in server.json("plugins_listing").items() if facts["enabled"]}
        if shown == expected:
            return
        time.sleep(0.5)
    raise AssertionError(f"TensorBoard shows {shown}")


def scalars(server):
    assert server.plugin("scalars", "tags")["more"].keys() == {"loss"}
    points = server.plugin("scalars", "scalars", run="train", tag="loss")
    assert [step for _, step, _ in points] == list(range(20)), points
    assert points[-1][2] < points[0][2]
    assert [value for _, _, value in server.plugin("scalars", "scalars", run="more", tag="loss")] == [0.25]


def images(server):
    tags = server.plugin("images", "tags")
    assert tags["train"]["digits"]["samples"] == 2 and tags["more"].keys() == {"unit", "largest"}, tags
    for tag, expected in (("unit", [0, 127, 255, 255]), ("largest", [0, 63, 127, 255])):
        (found,) = server.plugin("images", "images", run="more", tag=tag, sample=0)
        assert found["step"] == 0
        png = server.get("plugin/images/individualImage?" + found["query"])
        image = tf.image.decode_png(png).numpy()
        assert image.shape == (2, 2, 1) and image.ravel().tolist() == expected


def sounds(server):
    assert server.plugin("audio", "tags")["more"]["sound"]["samples"] == 1
    (found,) = server.plugin("audio", "audio", run="more", tag="sound", sample=0)
    assert found["contentType"] == "audio/wav"
    wav, rate = tf.audio.decode_wav(server.get("plugin/audio/individualAudio?" + found["query"]))
    assert rate.numpy() == 8000
    np.testing.assert_allclose(wav.numpy()[:, 0], np.sin(np.arange(800) * 0.1), atol=1 / 32000)


def histograms(server):
    ((_, step, buckets),) = server.plugin("histograms", "histograms", run="more", tag="values")
    assert step == 0 and np.array(buckets)[:, 2].sum() == 100 and buckets[0][0] == 0 and buckets[-1][1] == 99
    assert len(server.plugin("histograms", "histograms", run="train", tag="layer1/w")) == 20
    assert server.plugin("distributions", "tags")["more"].keys() == {"values"}
    ((_, _, points),) = server.plugin("distributions", "distributions", run="more", tag="values")
    assert points[0] == [0, 0] and points[-1] == [10000, 99], points
    assert abs(dict(points)[5000] - 49.5) < 2


def text(server):
    assert server.plugin("text", "tags") == {"train": ["note"]} | {run: [] for run in server.plugin("text", "tags") if run != "train"}
    (found,) = server.plugin("text", "text", run="train", tag="note")
    assert found["step"] == 0 and "<strong>bold</strong> words" in found["text"], found


def curves(server):
    assert server.plugin("pr_curves", "tags")["more"].keys() == {"curve"}
    (curve,) = server.plugin("pr_curves", "pr_curves", run="more", tag="curve")["more"]
    np.testing.assert_allclose(curve["thresholds"], np.arange(11) / 10, atol=1e-6)
    assert curve["true_positives"][0] == 3 and curve["false_positives"][0] == 2 and curve["recall"][0] == 1


def hyperparameters(server):
    experiment = server.plugin("hparams", "experiment", request=json.dumps({"experimentName": ""}))
    assert {info["name"]: info["type"] for info in experiment["hparamInfos"]}["kind"] == "DATA_TYPE_STRING"
    request = {"experimentName": "", "allowedStatuses": ["STATUS_SUCCESS", "STATUS_UNKNOWN", "STATUS_RUNNING"],
               "colParams": [{"metric": {"group": "", "tag": "loss"}, "order": "ORDER_ASC"}], "startIndex": 0,
               "sliceSize": 10}
    (group,) = server.plugin("hparams", "session_groups", request=json.dumps(request))["sessionGroups"]
    assert group["hparams"] == {"rate": 0.5, "kind": "sgd", "bias": True}, group
    (session,) = group["sessions"]
    assert session["status"] == "STATUS_SUCCESS" and session["metricValues"][0]["value"] == 0.25, session


def projector(server):
    assert server.plugin("projector", "runs") == ["more"]
    info = server.plugin("projector", "info", run="more")
    entries = {e["tensorName"]: e for e in info["embeddings"]}
    assert entries.keys() == {"a/words", "blanks"}, info
    assert entries["a/words"]["tensorShape"] == [3, 2] and entries["a/words"]["sprite"]["singleImageDim"] == [5, 4]
    ask = {"run": "more", "name": "a/words"}
    vectors = np.frombuffer(server.get("plugin/projector/tensor", **ask), np.float32).reshape(3, 2)
    np.testing.assert_array_equal(vectors, [[1, 2], [3, 4], [5, 6.5]])
    assert server.get("plugin/projector/metadata", **ask).decode() == "word\tcount\nx\t1\ny\t2\nz\t3\n"
    assert tf.image.decode_png(server.get("plugin/projector/sprite_image", **ask)).shape == (8, 10, 1)
    # The page leaves out lines of spaces alone, and takes the others one by one.
    labels = server.get("plugin/projector/metadata", run="more", name="blanks").decode().split("\n")
    assert [line for line in labels if line.strip()] == ["\u200b", "a", "\u200b "], labels


def graphs(server):
    info = server.plugin("graphs", "info")
    assert info["mlp"]["run_graph"] and info["train"]["run_graph"], info
    graph = graph_pb2.GraphDef()
    text_format.Parse(server.get("plugin/graphs/graph", run="mlp", conceptual="false"), graph)
    names = {node.name for node in graph.node}
    assert {"layer1/w", "layer2/b", "output"} <= names, names
    assert all(source.split(":")[0].lstrip("^") in names for node in graph.node for source in node.input)
    # The time and memory of a profile, on the graph of its run.
    assert "step" in info["profile"]["tags"] and info["profile"]["tags"]["step"]["profile"], info
    run = config_pb2.RunMetadata()
    text_format.Parse(server.get("plugin/graphs/run_metadata", run="profile", tag="step"), run)
    timed = [n for device in run.step_stats.dev_stats for n in device.node_stats]
    graph = graph_pb2.GraphDef()
    text_format.Parse(server.get("plugin/graphs/graph", run="profile", conceptual="false"), graph)
    assert timed and {n.node_name for n in timed} <= {node.name for node in graph.node}
    # What was traced, a graph for each function.
    traced = info["train"]["tags"]["step"]
    assert traced["op_graph"] and not traced["profile"], traced
    assert b"Assign" in server.get("plugin/graphs/graph", run="train", tag="step", conceptual="false")


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([f"{BUILD}/tests/api_viewers"], cwd=folder, check=True)
    board = Server(f"{folder}/viewers/logs")
    loaded(board)
    dashboards = (plugins, scalars, images, sounds, histograms, text, curves, hyperparameters, projector, graphs)
    for dashboard in dashboards:
        dashboard(board)
print(f"{len(dashboards)} kinds of requests answered by TensorBoard's server", flush=True)
os._exit(0)  # TensorBoard's threads load on, and Python would end while one is in C++ code, which that can abort
