"""What viewers make of the files that rill writes: the program tests/api/viewers.cpp runs, then each viewer that is
installed reads what it wrote. Graphviz: `dot`; TensorBoard and Model Explorer: their Python packages (`pip install
tensorboard ai-edge-model-explorer`); Chromium opens the web pages, and node runs their script. Skipped where there is none.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

BUILD = os.environ.get("RILL_BUILD_ROOT", "build")
checked = []


def graphviz(out):
    if not shutil.which("dot"):
        return
    svg = subprocess.run(["dot", "-Tsvg", f"{out}/mlp.dot"], capture_output=True, text=True, check=True)
    assert not svg.stderr, svg.stderr
    for text in ("layer1", "layer2", "loss", "f32[32,8]", "f32[32,16]"):
        assert f">{text}</text>" in svg.stdout, f"{text} is not in the picture"
    checked.append("Graphviz")


def tensorboard(out):
    try:
        from tensorboard.backend.event_processing import event_accumulator
        from tensorboard.compat.proto import config_pb2, graph_pb2
        from tensorboard.util import tensor_util
    except ImportError:
        return

    def load(folder):
        events = event_accumulator.EventAccumulator(f"{out}/logs/{folder}", size_guidance={"tensors": 0})
        events.Reload()
        return events

    graph = load("mlp").Graph()
    names = {node.name for node in graph.node}
    assert {"layer1/w", "layer2/b", "output"} <= names, names
    assert any(node.op == "Softmax" and node.name.startswith("layer2/") for node in graph.node), names
    for node in graph.node:
        for source in node.input:
            assert source.split(":")[0] in names, f"{node.name} reads {source}, which is not there"
    with open(f"{out}/mlp.pb", "rb") as file:
        assert graph_pb2.GraphDef.FromString(file.read()) == graph

    train = load("train")
    losses = [tensor_util.make_ndarray(e.tensor_proto).item() for e in train.Tensors("loss")]
    assert len(losses) == 20 and losses[-1] < losses[0], losses
    assert [e.step for e in train.Tensors("loss")] == list(range(20))
    histogram = tensor_util.make_ndarray(train.Tensors("layer1/w")[0].tensor_proto)
    assert histogram.shape == (30, 3) and histogram[:, 2].sum() == 8 * 16, histogram
    assert (histogram[1:, 0] == histogram[:-1, 1]).all(), "the buckets leave gaps"
    image = train.Tensors("digits")[0].tensor_proto.string_val
    assert list(image[:2]) == [b"28", b"28"] and len(image) == 4, image[:2]
    assert train.Tensors("note")[0].tensor_proto.string_val[0] == b"**bold** words"
    run = config_pb2.RunMetadata.FromString(train.Tensors("step")[0].tensor_proto.string_val[0])
    traced = run.function_graphs[-1].pre_optimization_graph
    assert {"Assign", "VariableV2"} <= {node.op for node in traced.node}
    plugins = {tag: train.SummaryMetadata(tag).plugin_data.plugin_name for tag in train.Tags()["tensors"]}
    assert plugins == {"loss": "scalars", "layer1/w": "histograms", "digits": "images", "note": "text",
                       "step": "graph_run_metadata_graph"}, plugins

    profile = load("profile")
    run = config_pb2.RunMetadata.FromString(profile.Tensors("step")[0].tensor_proto.string_val[0])
    timed = [stats for device in run.step_stats.dev_stats for stats in device.node_stats]
    assert timed and {stats.node_name for stats in timed} <= {node.name for node in profile.Graph().node}
    assert all(stats.op_end_rel_micros > 0 for stats in timed)
    checked.append("TensorBoard")


def model_explorer(out):
    try:
        from model_explorer import graph_builder, node_data_builder
    except ImportError:
        return
    # The viewer's own classes say which keys it reads.
    with open(f"{out}/mlp.json", encoding="utf-8") as file:
        graph = json.load(file)["graphs"][0]
    known = {"id", "nodes"}
    assert known <= set(graph_builder.Graph.__dataclass_fields__)
    for node in graph["nodes"]:
        assert set(node) <= set(graph_builder.GraphNode.__dataclass_fields__), node
        for edge in node["incomingEdges"]:
            assert set(edge) <= set(graph_builder.IncomingEdge.__dataclass_fields__), edge
        for output in node.get("outputsMetadata", []):
            assert set(output) <= set(graph_builder.MetadataItem.__dataclass_fields__), output
    assert {node["namespace"] for node in graph["nodes"]} >= {"layer1", "layer2", "loss"}

    with open(f"{out}/step.json", encoding="utf-8") as file:
        graph = json.load(file)["graphs"][0]
    with open(f"{out}/step.nodes.json", encoding="utf-8") as file:
        data = json.load(file)[graph["id"]]
    assert set(data) <= set(node_data_builder.GraphNodeData.__dataclass_fields__), set(data)
    assert data["results"] and set(data["results"]) <= {node["id"] for node in graph["nodes"]}
    for result in data["results"].values():
        assert set(result) <= set(node_data_builder.NodeDataResult.__dataclass_fields__), result
        assert result["value"] > 0
    checked.append("Model Explorer")


def browser(out):
    """The page says how many nodes it holds and draws; headless Chromium runs it, without a network."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        return
    for name in ("mlp", "step"):
        with open(f"{out}/{name}.html", encoding="utf-8") as file:
            page = file.read()
        data = page.split('<script id="graph" type="application/json">')[1].split("</script>")[0]
        count = len(json.loads(data)["nodes"])
        dom = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--proxy-server=127.0.0.1:1", f"--user-data-dir={out}/chromium",
                              "--virtual-time-budget=5000", "--dump-dom", f"file://{out}/{name}.html"],
                             capture_output=True, text=True, timeout=120)
        if dom.returncode and not dom.stdout:
            return  # it cannot run here
        assert f'data-nodes="{count}"' in dom.stdout, f"{name}: {count} nodes expected"
        shown = int(dom.stdout.split('data-shown="')[1].split('"')[0])
        assert 0 < shown == dom.stdout.count('<g class="node') <= count, shown
        assert shown == count or count > 60
    checked.append("Chromium")


# As much of a browser as the page uses, and a graph that is larger than any engine takes arguments.
LARGE_PAGE = """
const fs = require("fs"), page = fs.readFileSync(process.argv[1], "utf8"), count = 150000;
function element() {
  return {style: {}, dataset: {}, checked: false, value: "bytes", children: [], setAttribute() {}, remove() {}, append() {},
          insertRow: element, insertCell: element, querySelector: element,
          appendChild(c) { this.children.push(c); }, replaceChildren() { this.children = []; },
          querySelectorAll() { return this.children; }, getBoundingClientRect() { return {width: 800, height: 600}; }};
}
const elements = {}, window = {};
const document = {body: element(), createElementNS: element, createElement: element,
                  getElementById(name) { return elements[name] ||= element(); }};
const node = i => ({id: "n" + i, label: "n" + i, scope: "", op: "op", kind: "op", attrs: [], out: ["f32[1]"], bytes: i,
                    in: i ? [[Math.max(0, i - 1 - i % 1000), 0]] : []});
document.getElementById("graph").textContent = JSON.stringify({name: "large", nodes: Array.from({length: count}, (_, i) => node(i))});
const script = page.split("<script>")[1].split("</script>")[0];
new Function("document", "window", script)(document, window);
if (document.body.dataset.nodes !== count || !(document.body.dataset.shown > count)) throw Error("not all is drawn");
"""


def large_page(out):
    """The page's script draws 150,000 nodes, their heat too, without its time growing with their square."""
    node = shutil.which("node") or shutil.which("nodejs")
    if not node:
        return
    subprocess.run([node, "-e", LARGE_PAGE, f"{out}/mlp.html"], check=True, timeout=240)
    checked.append("node")


def perfetto(out):
    """Chrome's trace event format: complete events, in microseconds."""
    with open(f"{out}/trace.json", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert spans and all(event["dur"] >= 0 and event["ts"] >= 0 and event["name"] for event in spans)


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([os.path.abspath(f"{BUILD}/tests/api_viewers")], cwd=folder, check=True)
    assert glob.glob(f"{folder}/viewers/logs/mlp/events.out.tfevents.*")
    for viewer in (graphviz, tensorboard, model_explorer, browser, large_page, perfetto):
        viewer(f"{folder}/viewers")
print("read by:", ", ".join(checked) or "no viewer is installed")
sys.exit(0 if checked else 77)
