"""What TensorBoard's own readers make of the event files that tests/api/viewers.cpp writes: EventAccumulator, the data
providers of its plugins, its proto messages, and TensorFlow's decoders of images and sounds. Runs in the environment
.deps/formats (tests/formats.txt), which ./dev test --all makes; skipped where there is none.
"""
import subprocess
import tempfile

from formats_environment import BUILD, needed

with needed():
    import numpy as np
    import tensorflow as tf
    from google.protobuf import text_format
    from tensorboard.backend.event_processing import data_provider, event_accumulator, plugin_event_multiplexer
    from tensorboard.compat.proto import config_pb2
    from tensorboard.context import RequestContext
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.audio import metadata as audio_metadata
    from tensorboard.plugins.distribution import compressor, distributions_plugin
    from tensorboard.plugins.hparams import api_pb2, backend_context
    from tensorboard.plugins.hparams import metadata as hparams_metadata
    from tensorboard.plugins.pr_curve import metadata as pr_metadata
    from tensorboard.plugins.pr_curve import summary as pr_summary
    from tensorboard.plugins.projector import projector_config_pb2, projector_plugin
    from tensorboard.util import tensor_util


def array(event):
    return tensor_util.make_ndarray(event.tensor_proto)


def images_and_sounds(run, provider, ctx):
    for tag, pixels in (("unit", [0, 127, 255, 255]), ("largest", [0, 63, 127, 255])):
        width, height, png = array(run.Tensors(tag)[0])
        assert (width, height) == (b"2", b"2")
        assert tf.image.decode_png(png).numpy().ravel().tolist() == pixels, tag
    content = run.SummaryMetadata("sound").plugin_data.content
    assert audio_metadata.parse_plugin_metadata(content).encoding == audio_metadata.Encoding.Value("WAV")
    blobs = provider.read_blob_sequences(ctx, experiment_id="id", plugin_name="audio", downsample=10)["more"]["sound"]
    assert len(blobs[0].values) == 1, blobs  # the labels were taken away, as from TensorFlow's
    wav = provider.read_blob(ctx, blob_key=blobs[0].values[0].blob_key)
    assert wav == array(run.Tensors("sound")[0])[0][0]
    sound, rate = tf.audio.decode_wav(wav)
    assert rate.numpy() == 8000
    np.testing.assert_allclose(sound.numpy()[:, 0], np.sin(np.arange(800) * 0.1), atol=1 / 32000)
    # TensorFlow's encoder makes the same bytes of what it decoded.
    assert tf.audio.encode_wav(sound, rate).numpy() == wav


def curves(run):
    content = run.SummaryMetadata("curve").plugin_data.content
    assert pr_metadata.parse_plugin_metadata(content).num_thresholds == 11
    labels, predictions = np.array([1, 0, 1, 1, 0], bool), np.array([0.9, 0.4, 0.35, 1, 0], np.float32)
    expected = pr_summary.pb("curve", labels, predictions, 11).value[0].tensor
    np.testing.assert_array_equal(array(run.Tensors("curve")[0]), tensor_util.make_ndarray(expected))


def histograms(run, provider, ctx, context):
    buckets = array(run.Tensors("values")[0])
    expected = np.histogram(np.arange(100), 30)
    np.testing.assert_array_equal(buckets[:, 2], expected[0])
    np.testing.assert_allclose(buckets[:, 0], expected[1][:-1])
    plugin = distributions_plugin.DistributionsPlugin(context)
    points, _ = plugin.distributions_impl(ctx, "values", "more", "id")
    assert len(points) == 1 and len(points[0][2]) == len(compressor.NORMAL_HISTOGRAM_BPS), points


def hyperparameters(provider, ctx, context):
    backend = backend_context.Context(context)
    metadata = backend.hparams_metadata(ctx, "id")
    experiment = backend.experiment_from_metadata(ctx, "id", True, metadata, [])
    kinds = {info.name: info.type for info in experiment.hparam_infos}
    assert kinds["rate"] == api_pb2.DATA_TYPE_FLOAT64 and kinds["kind"] == api_pb2.DATA_TYPE_STRING, kinds
    assert experiment.metric_infos[0].name.tag == "loss"
    data = metadata["more"]
    start = hparams_metadata.parse_session_start_info_plugin_data(data[hparams_metadata.SESSION_START_INFO_TAG])
    values = {name: getattr(v, v.WhichOneof("kind")) for name, v in start.hparams.items()}
    assert values == {"rate": 0.5, "kind": "sgd", "bias": True}, values
    end = hparams_metadata.parse_session_end_info_plugin_data(data[hparams_metadata.SESSION_END_INFO_TAG])
    assert end.status == api_pb2.STATUS_SUCCESS and end.end_time_secs >= start.start_time_secs


def projector(folder):
    config = projector_config_pb2.ProjectorConfig()
    with open(f"{folder}/projector_config.pbtxt", encoding="utf-8") as file:
        text_format.Parse(file.read(), config)
    e, other = config.embeddings  # of two writers
    assert other.tensor_name == "blanks" and list(other.tensor_shape) == [3, 2]
    assert e.tensor_name == "a/words" and list(e.tensor_shape) == [3, 2] and list(e.sprite.single_image_dim) == [5, 4]
    vectors = projector_plugin._read_tensor_tsv_file(f"{folder}/{e.tensor_path}")
    np.testing.assert_array_equal(vectors, np.array([[1, 2], [3, 4], [5, 6.5]], np.float32))
    with open(f"{folder}/{e.metadata_path}", encoding="utf-8") as file:
        assert file.read() == "word\tcount\nx\t1\ny\t2\nz\t3\n"
    with open(f"{folder}/{e.sprite.image_path}", "rb") as file:
        assert tf.image.decode_png(file.read()).shape == (8, 10, 1)


def profile(run):
    stats = config_pb2.RunMetadata.FromString(array(run.Tensors("step")[0]).item())
    names = {node.name for node in run.Graph().node}
    nodes = [n for device in stats.step_stats.dev_stats for n in device.node_stats]
    assert nodes and {n.node_name for n in nodes} <= names
    for n in nodes:
        assert n.all_end_rel_micros > 0
        assert sum(m.total_bytes for m in n.memory) > 0, n
        for output in n.output:
            t = output.tensor_description
            count = np.prod([d.size for d in t.shape.dim], dtype=int)
            assert t.allocation_description.allocated_bytes == count * tf.dtypes.as_dtype(t.dtype).size, t


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([f"{BUILD}/tests/api_viewers"], cwd=folder, check=True)
    logs = f"{folder}/viewers/logs"
    run = event_accumulator.EventAccumulator(f"{logs}/more", size_guidance={"tensors": 0})
    run.Reload()
    plugins = {tag: run.SummaryMetadata(tag).plugin_data.plugin_name for tag in run.Tags()["tensors"]}
    assert plugins == {"loss": "scalars", "unit": "images", "largest": "images", "sound": "audio", "curve": "pr_curves",
                       "values": "histograms", "step": "graph_run_metadata", "_hparams_/experiment": "hparams",
                       "_hparams_/session_start_info": "hparams", "_hparams_/session_end_info": "hparams"}, plugins
    multiplexer = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory(logs)
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, logs)
    ctx, context = RequestContext(), base_plugin.TBContext(data_provider=provider, logdir=logs)
    images_and_sounds(run, provider, ctx)
    curves(run)
    histograms(run, provider, ctx, context)
    hyperparameters(provider, ctx, context)
    projector(f"{logs}/more")
    profile(run)
print(f"{len(plugins)} tags read by TensorBoard's readers")
