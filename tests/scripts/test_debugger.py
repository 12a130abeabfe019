"""Dumps of debug::dump(), read by TensorFlow's reader of Debugger V2 and served by TensorBoard's plugin: graphs, calls,
values, alerts, source lines. tests/serialize/test_debugger.cpp writes them. Runs in the environment .deps/formats
(tests/formats.txt), which ./dev test --all makes; skipped where there is none.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from formats_environment import BUILD, needed

with needed():
    import numpy as np
    from tensorflow.python.debug.lib import debug_events_reader, debug_events_monitors
    from tensorboard import default, program
    from tensorboard.plugins.debugger_v2 import debug_data_multiplexer

X = np.array([[1, 2], [3, 4]], np.float32)
W = np.array([[1, -3], [0.5, 0.25]], np.float32)
HIDDEN = np.maximum(X @ W + 1, 0)


def write(folder):
    done = subprocess.run([f"{BUILD}/tests/test_debugger", "child: writes dumps for others"],
                          env=os.environ | {"RILL_DUMPS": folder}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def read(folder):
    reader = debug_events_reader.DebugDataReader(folder)
    monitor = debug_events_monitors.InfNanMonitor(reader)
    reader.update()
    return reader, monitor.alerts()


def full(folder):
    reader, alerts = read(f"{folder}/full")
    (call,) = reader.executions()
    assert call.op_type == "net" and reader.graph_by_id(call.graph_id).name == "net"
    traces = {trace.op_name: trace for trace in reader.graph_execution_traces()}
    # Behind the ids: dtype, axes, elements, -inf, +inf, NaN, negative, zero, positive.
    assert traces["hidden/matmul"].debug_tensor_value[2:] == (1, 2, 4, 0, 0, 0, 2, 0, 2)
    assert [(alert.op_type, alert.num_neg_inf) for alert in alerts] == [("log", 2), ("reshape", 2), ("sum", 1)], alerts
    graph = reader.graph_by_id(call.graph_id)
    matmul = graph.get_op_creation_digest("hidden/matmul")
    assert matmul.op_type == "matmul" and len(matmul.input_names) == 2
    host, ((path, line, _),) = reader.read_graph_op_creation_stack_trace(matmul)
    assert path == "test_debugger.cpp" and "matmul(x, w)" in reader.source_lines(host, path)[line - 1]


def health(folder):
    reader, alerts = read(f"{folder}/health")
    assert [alert.op_type for alert in alerts] == ["log", "reshape", "sum"]
    traces = {trace.op_name: trace for trace in reader.graph_execution_traces()}
    assert traces["log"].debug_tensor_value[2:8] == (1, 2, 4, 2, 0, 0), traces["log"].debug_tensor_value
    assert traces["hidden/relu"].debug_tensor_value[8:] == (0, np.sum(HIDDEN == 0), np.sum(HIDDEN > 0))


def eager(folder):
    reader, alerts = read(f"{folder}/eager")
    calls = reader.executions()
    assert [call.op_type for call in calls] == ["multiply", "sqrt"]
    assert calls[1].input_tensor_ids == calls[0].output_tensor_ids
    (health,) = calls[1].debug_tensor_values
    assert health[4:] == [2, 0, 0, 1, 0, 0, 1], health  # elements, -inf, +inf, NaN, negative, zero, positive
    assert [(alert.op_type, alert.num_nan) for alert in alerts] == [("sqrt", 1)]
    assert reader.device_name_map() == {0: "cpu:0"}


def loop(folder):
    reader, _ = read(f"{folder}/loop")
    inner = [trace for trace in reader.graph_execution_traces() if trace.op_type == "multiply"]
    assert len(inner) == 3 and all(len(trace.graph_ids) == 2 for trace in inner)
    assert reader.graph_by_id(inner[0].graph_ids[0]).name == "loop"


def served(folder):
    """What TensorBoard's page asks of its server."""
    board = debug_data_multiplexer.DebuggerV2EventMultiplexer(f"{folder}/health")
    (run,) = board.Runs()
    for _ in range(100):
        alerts = board.Alerts(run, 0, -1)
        if alerts["num_alerts"] == 3:
            break
        time.sleep(0.1)
    assert alerts["alerts"][0]["op_type"] == "log" and alerts["alerts"][0]["num_neg_inf"] == 2, alerts
    traces = board.GraphExecutionData(run, 0, -1)["graph_executions"]
    log = next(trace for trace in traces if trace["op_name"] == "log")
    info = board.GraphOpInfo(run, log["graph_id"], "log")
    assert info["inputs"][0]["op_name"] == "hidden/relu" and info["inputs"][0]["data"]["op_type"] == "relu"
    assert info["consumers"][0][0]["op_name"] == "reshape"
    files = [path for _, path in board.SourceFileList(run)]
    assert "#include" in "\n".join(board.SourceLines(run, files.index("test_debugger.cpp"))["lines"])
    frames = board.StackFrames(run, info["stack_frame_ids"])["stack_frames"]
    assert frames[0][1] == "test_debugger.cpp", frames
    json.dumps([alerts, traces, info, frames])  # as the page gets it


def asked(folder):
    """A stack as the page asks for it: the server joins the ids of its lines by underscores."""
    board = program.TensorBoard(plugins=default.get_plugins())
    board.configure(argv=[None, "--logdir", f"{folder}/health", "--port", "0", "--load_fast", "false"])
    url = board.launch() + "data/plugin/debugger-v2/"

    def get(path):
        with urllib.request.urlopen(url + path) as answer:
            return json.loads(answer.read())

    (run,) = get("runs")
    for _ in range(100):
        try:
            traces = get(f"graph_execution/data?run={run}&begin=0&end=9")
            break
        except urllib.error.HTTPError as e:  # it has not read so many yet
            assert e.code == 400, e
            time.sleep(0.1)
    log = next(trace for trace in traces["graph_executions"] if trace["op_name"] == "log")
    info = get(f"graphs/op_info?run={run}&graph_id={log['graph_id']}&op_name=log")
    frames = get(f"stack_frames/stack_frames?run={run}&stack_frame_ids={','.join(info['stack_frame_ids'])}")
    assert frames and frames["stack_frames"][0][1] == "test_debugger.cpp", frames


def page(folder):
    """Debugger V2 in headless Chromium: what the page shows once its scripts have run."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        return print("skipped: page: chromium is not installed")
    board = program.TensorBoard(plugins=default.get_plugins())
    board.configure(argv=[None, "--logdir", f"{folder}/health", "--port", "0", "--load_fast", "false"])
    url = board.launch()
    for _ in range(3):  # the first may come before the dump is read
        shown = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/chromium",
                                "--virtual-time-budget=30000", "--window-size=1400,1000", "--dump-dom", f"{url}#debugger-v2"],
                               capture_output=True, text=True, timeout=200).stdout
        words = " ".join(re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", shown, flags=re.S).split())
        if "Graph Executions (9)" in words:
            break
    if not shown:
        return print("skipped: page: Chromium cannot run here")
    for text in ("Alerts 3 NaN/\u221e \u221e: 3", "Python Execution #0 Op: net", "Graph Executions (9)"):
        assert text in words, f"{text} is not on the page"


with tempfile.TemporaryDirectory() as folder:
    write(folder)
    for check in (full, health, eager, loop, served, asked, page):
        check(folder)
        print(f"{check.__name__}: ok")
sys.stdout.flush()
os._exit(0)  # readers' threads load on, and Python would end while one is in C++ code, which that can abort
