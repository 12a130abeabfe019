"""What viewers make of the files that rill writes: the program tests/api/viewers.cpp runs, then each viewer that is
installed reads what it wrote; those that are not are counted as skipped. Graphviz: `dot`; TensorBoard, Netron, Model
Explorer and Perfetto: their Python packages (the first two and the last are in tests/formats.txt; Model Explorer is 500 MB
of code for other formats: `pip install ai-edge-model-explorer`); Chromium opens the web pages, and node runs their script
and Netron's parser.
"""
import dataclasses
import glob
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from formats_environment import BUILD, ROOT


class Missing(Exception):
    """A viewer that is not here."""


def program(*names):
    for name in names:
        if found := shutil.which(name):
            return found
    raise Missing(f"{names[0]} is not installed")


def fetch(url, what="", **arguments):
    query = "?" + urllib.parse.urlencode(arguments) if arguments else ""
    with urllib.request.urlopen(f"{url}/{what}{query}", timeout=60) as answer:
        return answer.read()


def graphviz(out):
    program("dot")
    svg = subprocess.run(["dot", "-Tsvg", f"{out}/mlp.dot"], capture_output=True, text=True, check=True)
    assert not svg.stderr, svg.stderr
    for text in ("layer1", "layer2", "loss", "f32[32,8]", "f32[32,16]"):
        assert f">{text}</text>" in svg.stdout, f"{text} is not in the picture"


def tensorboard(out):
    try:
        from tensorboard.backend.event_processing import event_accumulator
        from tensorboard.compat.proto import config_pb2, graph_pb2
        from tensorboard.util import tensor_util
    except ImportError as error:
        raise Missing(error) from error

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


def model_explorer(out):
    try:
        from model_explorer import graph_builder, node_data_builder
    except ImportError as error:
        raise Missing(error) from error
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
    model_explorer_server(out)


def made(kind, fields):
    """A dataclass of the viewer's from JSON; a key that it does not have is an error."""
    inner = {"nodes": "GraphNode", "incomingEdges": "IncomingEdge", "attrs": "KeyValue", "outputsMetadata": "MetadataItem",
             "inputsMetadata": "MetadataItem"}
    from model_explorer import graph_builder
    values = {}
    for key, value in fields.items():
        child = getattr(graph_builder, inner.get(key, ""), None)
        values[key] = [made(child, item) for item in value] if child and dataclasses.is_dataclass(child) else value
    return kind(**values)


def model_explorer_server(out):
    """The graph as the viewer's own objects, through its server, as its page asks for it."""
    import portpicker
    from model_explorer import graph_builder, server
    from model_explorer.config import ModelExplorerConfig
    with open(f"{out}/mlp.json", encoding="utf-8") as file:
        ours = json.load(file)
    config = ModelExplorerConfig()
    config.graphs_list.append({"graphs": [made(graph_builder.Graph, graph) for graph in ours["graphs"]]})
    config.model_sources.append({"url": "graphs://mlp/0"})
    port = portpicker.pick_unused_port()
    options = {"host": "127.0.0.1", "port": port, "config": config, "no_open_in_browser": True, "skip_health_check": True}
    threading.Thread(target=server.start, kwargs=options, daemon=True).start()
    url = f"http://127.0.0.1:{port}"
    for _ in range(120):
        try:
            if fetch(url, "check_health") == b"model_explorer_ok":
                break
        except OSError:
            time.sleep(0.5)
    served = json.loads(fetch(url, "api/v1/load_graphs_json", graph_index=0))
    graphs = served.get("graphs") or served["graphCollections"][0]["graphs"]
    assert len(graphs) == len(ours["graphs"])
    for theirs, graph in zip(graphs, ours["graphs"], strict=True):
        assert [n["id"] for n in theirs["nodes"]] == [n["id"] for n in graph["nodes"]]
        edges = [[e["sourceNodeId"] for e in n.get("incomingEdges") or []] for n in theirs["nodes"]]
        assert edges == [[e["sourceNodeId"] for e in n["incomingEdges"]] for n in graph["nodes"]]


def netron(out):
    """Its server serves the page and our file; its parser, run by node, finds the nodes and names in it."""
    try:
        import netron as package
        import onnx
    except ImportError as error:
        raise Missing(error) from error
    address = package.start(f"{out}/mlp.onnx", browse=False)
    url = f"http://{address[0]}:{address[1]}"
    try:
        assert b'<meta name="file" content="/data/mlp.onnx">' in fetch(url)
        with open(f"{out}/mlp.onnx", "rb") as file:
            assert fetch(url, "data/mlp.onnx") == file.read()
    finally:
        package.stop(address)
    node = program("node", "nodejs")
    with tempfile.TemporaryDirectory() as folder:  # node takes modules where a package.json says that they are such
        for file in glob.glob(os.path.join(os.path.dirname(package.__file__), "*.js*")):
            shutil.copy(file, folder)
        with open(f"{folder}/package.json", "w", encoding="utf-8") as file:
            file.write('{"type": "module"}')
        files = [f"{out}/{name}" for name in ("mlp.onnx", "mlp.pb", "mlp.dot")]
        done = subprocess.run([node, f"{ROOT}/tests/scripts/netron_nodes.mjs", folder, *files], capture_output=True, text=True,
                              check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    model, graph_def, dot = json.loads(done.stdout)
    ours = onnx.load(f"{out}/mlp.onnx").graph
    assert model["format"].startswith("ONNX"), model["format"]
    assert model["graphs"][0]["nodes"] == [n.op_type for n in ours.node]
    assert model["graphs"][0]["inputs"] == ["x", "labels"] and model["graphs"][0]["outputs"] == ["loss"]
    assert graph_def["format"] == "TensorFlow Graph" and "Softmax" in graph_def["graphs"][0]["nodes"]
    assert dot["format"] == "DOT" and len(dot["graphs"][0]["nodes"]) > 10


def browser(out):
    """The page says how many nodes it holds and draws; headless Chromium runs it, without a network."""
    chromium = program("chromium", "chromium-browser", "google-chrome")
    for name in ("mlp", "step"):
        with open(f"{out}/{name}.html", encoding="utf-8") as file:
            page = file.read()
        data = page.split('<script id="graph" type="application/json">')[1].split("</script>")[0]
        count = len(json.loads(data)["nodes"])
        dom = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--proxy-server=127.0.0.1:1", f"--user-data-dir={out}/chromium",
                              "--virtual-time-budget=5000", "--dump-dom", f"file://{out}/{name}.html"],
                             capture_output=True, text=True, timeout=120)
        if dom.returncode and not dom.stdout:
            raise Missing("Chromium cannot run here")
        assert f'data-nodes="{count}"' in dom.stdout, f"{name}: {count} nodes expected"
        shown = int(dom.stdout.split('data-shown="')[1].split('"')[0])
        assert 0 < shown == dom.stdout.count('<g class="node') <= count, shown
        assert shown == count or count > 60


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
    node = program("node", "nodejs")
    subprocess.run([node, "-e", LARGE_PAGE, f"{out}/mlp.html"], check=True, timeout=240)


def trace_events(out):
    """Chrome's trace event format: complete events, in microseconds."""
    with open(f"{out}/trace.json", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert spans and all(event["dur"] >= 0 and event["ts"] >= 0 and event["name"] for event in spans)
    return spans


def perfetto(out):
    """Its trace processor, which the package fetches when it is first used, finds the same slices."""
    try:
        from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
    except ImportError as error:
        raise Missing(error) from error
    shell = shutil.which("trace_processor_shell")
    try:
        processor = TraceProcessor(trace=f"{out}/trace.json", config=TraceProcessorConfig(bin_path=shell))
    except Exception as error:  # whatever it is that its download raises
        if shell:
            raise
        raise Missing(f"its trace processor cannot be fetched ({type(error).__name__})") from error
    with processor:
        rows = list(processor.query("select name, dur from slice order by ts"))
    spans = trace_events(out)
    assert len(rows) == len(spans)
    assert sorted(row.name for row in rows) == sorted(span["name"] for span in spans)
    assert all(row.dur >= 0 for row in rows)


VIEWERS = [graphviz, tensorboard, model_explorer, netron, browser, large_page, trace_events, perfetto]
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([f"{BUILD}/tests/api_viewers"], cwd=folder, check=True)
    assert glob.glob(f"{folder}/viewers/logs/mlp/events.out.tfevents.*")
    for viewer in VIEWERS:
        try:
            viewer(f"{folder}/viewers")
        except Missing as missing:
            print(f"skipped: {viewer.__name__}: {missing}")
print(f"All tests passed (in {len(VIEWERS)} test cases)")
