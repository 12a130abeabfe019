"""Writes numbers of the layers of the table (tests/support/layer_table.h) that torch and Keras give: layers.py OUT.npz.

For each case of a row, "torch/Conv2D grouped", the arrays: x, the weights by their paths in rill's layout, y of inference,
and, where training is not noise, "training", what the layer gives then. test_layer_table.cpp compares. The weights are
drawn here and given to both.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

rng = np.random.default_rng(7)
out = {}


def draw(*shape):
    return rng.normal(0, 0.5, shape).astype("f4")


def image(*shape):
    return rng.normal(0, 1, shape).astype("f4")


def first(x):
    """[batch, space..., channels] as torch has it."""
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, -1, 1)))


def last(y):
    return np.moveaxis(y.detach().numpy(), 1, -1)


def put(judge, case, x, weights, y, **more):
    name = f"{judge}/{case}"
    for key, value in {"x": x, "y": y, **{f"w/{k}": w for k, w in weights.items()}, **more}.items():
        out[f"{name}/{key}"] = np.array(value, order="C")


def by_torch(case, layer, x, weights, places, training=False):
    """`places`: of each weight, the name of torch's parameter and the axes that bring rill's there."""
    state = layer.state_dict()
    for path, w in weights.items():
        name, axes = places[path]
        state[name] = torch.from_numpy(np.ascontiguousarray(np.transpose(w, axes) if axes else w))
    layer.load_state_dict(state)
    spaced = x.ndim > 2
    run = lambda: last(layer(first(x))) if spaced else layer(torch.from_numpy(x)).detach().numpy()
    y = run() if layer.eval() else None
    more = {"training": run()} if training and layer.train() else {}
    put("torch", case, x, weights, y, **more)


def by_keras(case, layer, x, weights, order, training=False):
    """`order`: the paths in the order of Keras' weights."""
    layer.build(x.shape)
    if order:
        layer.set_weights([w.reshape(t.shape) for w, t in zip([weights[p] for p in order], layer.weights, strict=True)])
    y = np.array(layer(x, training=False)) if training else np.array(layer(x))
    more = {"training": np.array(layer(x, training=True))} if training else {}
    put("keras", case, x, weights, y, **more)


K = keras.layers
LINE, IMAGE, VOLUME = image(2, 7, 4), image(2, 5, 6, 4), image(1, 3, 4, 3, 2)
ROWS = image(3, 4)
KERNEL = {1: (2, 1, 0), 2: (3, 2, 0, 1), 3: (4, 3, 0, 1, 2)}  # [space..., in, out] to [out, in, space...]
conv_places = lambda n: {"kernel": ("weight", KERNEL[n]), "bias": ("bias", None)}


def sums():
    w = {"kernel": draw(4, 3), "bias": draw(3)}
    by_torch("Dense", nn.Linear(4, 3), ROWS, w, {"kernel": ("weight", (1, 0)), "bias": ("bias", None)})
    by_keras("Dense", K.Dense(3), ROWS, w, ["kernel", "bias"])
    by_keras("Dense without bias", K.Dense(3, activation="tanh", use_bias=False), image(2, 5, 4), {"kernel": w["kernel"]}, ["kernel"])
    x, w = image(3, 5), {"bilinear/kernel": draw(2, 3, 3), "bilinear/bias": draw(3)}
    layer = nn.Bilinear(2, 3, 3)
    layer.weight.data = torch.from_numpy(np.ascontiguousarray(np.transpose(w["bilinear/kernel"], (2, 0, 1))))
    layer.bias.data = torch.from_numpy(w["bilinear/bias"])
    put("torch", "Bilinear", x, w, layer(torch.from_numpy(x[:, :2]), torch.from_numpy(x[:, 2:])).detach().numpy())
    table, ids = draw(5, 3), np.array([[0, 4], [2, 2], [2, 3]], "i4")
    put("torch", "Embedding", ids, {"table": table}, F.embedding(torch.from_numpy(ids).long(), torch.from_numpy(table)).numpy())
    put("torch", "Embedding padding", ids, {"table": table},
        F.embedding(torch.from_numpy(ids).long(), torch.from_numpy(table.copy()), 2, 0.05).numpy())  # fmt: skip
    for mode, padding in [("mean", None), ("sum", 2), ("max", None)]:
        y = F.embedding_bag(torch.from_numpy(ids).long(), torch.from_numpy(table), mode=mode, padding_idx=padding).numpy()
        put("torch", f"EmbeddingBag {mode}", ids, {"table": table}, y)


def convolutions():
    w1, w2, w3 = ({"kernel": draw(*s), "bias": draw(s[-1])} for s in [(3, 4, 3), (3, 3, 4, 3), (2, 2, 2, 2, 3)])
    by_torch("Conv1D", nn.Conv1d(4, 3, 3), LINE, w1, conv_places(1))
    by_keras("Conv1D causal", K.Conv1D(3, 3, padding="causal", dilation_rate=2), LINE, w1, ["kernel", "bias"])
    by_torch("Conv1D reflect", nn.Conv1d(4, 3, 3, padding=1, padding_mode="reflect"), LINE, w1, conv_places(1))
    by_torch("Conv2D", nn.Conv2d(4, 3, 3), IMAGE, w2, conv_places(2))
    by_keras("Conv2D", K.Conv2D(3, 3), IMAGE, w2, ["kernel", "bias"])
    by_torch("Conv2D circular", nn.Conv2d(4, 3, 3, padding="same", padding_mode="circular"), IMAGE, w2, conv_places(2))
    by_keras("Conv2D strided", K.Conv2D(3, 3, strides=(2, 1), padding="same", use_bias=False), IMAGE, {"kernel": w2["kernel"]}, ["kernel"])
    grouped = {"kernel": draw(2, 3, 2, 4), "bias": draw(4)}
    by_keras("Conv2D grouped", K.Conv2D(4, (2, 3), padding="same", groups=2, activation="tanh"), IMAGE, grouped, ["kernel", "bias"])
    layer = nn.Sequential(nn.Conv2d(4, 4, (2, 3), padding="same", groups=2), nn.Tanh())
    by_torch("Conv2D grouped", layer, IMAGE, grouped, {"kernel": ("0.weight", KERNEL[2]), "bias": ("0.bias", None)})
    by_torch("Conv3D", nn.Conv3d(2, 3, 2), VOLUME, w3, conv_places(3))
    by_keras("Conv3D", K.Conv3D(3, 2), VOLUME, w3, ["kernel", "bias"])
    t1, t2, t3 = ({"kernel": draw(*s), "bias": draw(s[-2])} for s in [(3, 3, 4), (3, 3, 3, 4), (2, 2, 2, 2, 2)])
    by_torch("ConvTranspose1D", nn.ConvTranspose1d(4, 3, 3, stride=2), LINE, t1, conv_places(1))
    by_keras("ConvTranspose1D", K.Conv1DTranspose(3, 3, strides=2), LINE, t1, ["kernel", "bias"])
    by_keras("ConvTranspose2D", K.Conv2DTranspose(3, 3, strides=2, padding="same"), IMAGE, t2, ["kernel", "bias"])
    g = {"kernel": draw(3, 3, 2, 4), "bias": draw(4)}
    layer = nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1, output_padding=(1, 0), groups=2)
    by_torch("ConvTranspose2D output padding", layer, IMAGE, g, conv_places(2))
    by_torch("ConvTranspose3D", nn.ConvTranspose3d(2, 2, 2, stride=(1, 2, 1)), VOLUME, t3, conv_places(3))
    d1, d2 = {"kernel": draw(3, 1, 8), "bias": draw(8)}, {"kernel": draw(3, 3, 1, 8), "bias": draw(8)}
    by_torch("DepthwiseConv1D", nn.Conv1d(4, 8, 3, groups=4), LINE, d1, conv_places(1))
    by_keras("DepthwiseConv1D", K.DepthwiseConv1D(3, depth_multiplier=2), LINE, d1, ["kernel", "bias"])
    by_keras("DepthwiseConv2D", K.DepthwiseConv2D(3, depth_multiplier=2, padding="same"), IMAGE, d2, ["kernel", "bias"])
    order = ["depthwise", "pointwise", "bias"]
    s1 = {"depthwise": draw(3, 1, 8), "pointwise": draw(1, 8, 3), "bias": draw(3)}
    s2 = {"depthwise": draw(3, 3, 1, 4), "pointwise": draw(1, 1, 4, 3), "bias": draw(3)}
    by_keras("SeparableConv1D", K.SeparableConv1D(3, 3, depth_multiplier=2), LINE, s1, order)
    by_keras("SeparableConv2D", K.SeparableConv2D(3, 3, padding="same", activation="tanh"), IMAGE, s2, order)


def pools():
    line, pic, volume = image(2, 7, 3), image(2, 5, 6, 3), image(1, 4, 4, 4, 2)
    for case, layer, x in [
        ("MaxPool1D", nn.MaxPool1d(2), line),
        ("MaxPool2D", nn.MaxPool2d(2), pic),
        ("MaxPool2D ceil", nn.MaxPool2d(2, ceil_mode=True), pic),
        ("MaxPool2D dilated", nn.MaxPool2d(2, 1, 1, dilation=2), pic),
        ("MaxPool3D", nn.MaxPool3d(2), volume),
        ("AvgPool1D", nn.AvgPool1d(2), line),
        ("AvgPool2D ceil and counted padding", nn.AvgPool2d(3, 2, 1, ceil_mode=True), pic),
        ("AvgPool2D divisor", nn.AvgPool2d(2, divisor_override=3), pic),
        ("AvgPool3D", nn.AvgPool3d(2), volume),
        ("LpPool1D", nn.LPPool1d(2, 2), line),
        ("LpPool2D", nn.LPPool2d(3, 2), np.exp(pic)),
        ("LpPool3D", nn.LPPool3d(2, 2), volume),
        ("AdaptiveMaxPool", nn.AdaptiveMaxPool2d((2, 3)), pic),
        ("AdaptiveAvgPool", nn.AdaptiveAvgPool2d((2, 3)), pic),
        ("GlobalAvgPool", nn.AdaptiveAvgPool1d(1), line),
    ]:
        by_torch(case, layer, x, {}, {})
    by_keras("MaxPool2D SAME", K.MaxPooling2D((3, 2), 2, padding="same"), pic, {}, [])
    by_keras("AvgPool2D", K.AveragePooling2D(2, padding="same"), pic, {}, [])
    by_keras("GlobalMaxPool", K.GlobalMaxPooling2D(), pic, {}, [])
    by_keras("GlobalAvgPool", K.GlobalAveragePooling1D(keepdims=True), line, {}, [])
    x = image(2, 4, 6, 3)
    values, indices = F.max_pool2d(first(x), 2, return_indices=True)
    put("torch", "MaxUnpool", x, {}, last(F.max_unpool2d(values, indices, 2)))


def spaces():
    pic, line = image(2, 4, 3, 4), image(2, 5, 3)
    for case, layer, x in [
        ("SpacePad zeros", nn.ZeroPad2d((0, 1, 1, 2)), pic),
        ("SpacePad reflect", nn.ReflectionPad2d(1), pic),
        ("SpacePad circular", nn.CircularPad1d(2), line),
        ("SpacePad value", nn.ConstantPad1d(1, 3.0), line),
        ("Upsample nearest", nn.Upsample(scale_factor=2), pic),
        ("Upsample linear", nn.Upsample(scale_factor=(2, 1.5), mode="bilinear"), pic),
        ("Upsample cubic", nn.Upsample(size=(5, 7), mode="bicubic"), pic),
        ("PixelShuffle", nn.PixelShuffle(2), pic),
        ("PixelUnshuffle", nn.PixelUnshuffle(2), image(2, 4, 6, 3)),
        ("ChannelShuffle", nn.ChannelShuffle(2), pic),
    ]:
        by_torch(case, layer, x, {}, {})
    by_keras("Crop", K.Cropping2D(((1, 0), (1, 1))), pic, {}, [])
    by_keras("Upsample nearest", K.UpSampling2D(2), pic, {}, [])


def norms():
    scale, offset, mean, variance = draw(4) + 1, draw(4), draw(4), np.abs(draw(4)) + 0.5
    both = {"scale": scale, "offset": offset}
    places = {"scale": ("weight", None), "offset": ("bias", None)}
    moving = {**both, "mean": mean, "variance": variance}
    order = ["scale", "offset", "mean", "variance"]
    by_keras("BatchNorm", K.BatchNormalization(), IMAGE, moving, order, training=True)
    by_keras("BatchNorm without scale", K.BatchNormalization(scale=False), ROWS, {k: moving[k] for k in order[1:]}, order[1:], training=True)
    by_torch("BatchNorm", nn.BatchNorm2d(4, 1e-3), IMAGE, moving,
             {**places, "mean": ("running_mean", None), "variance": ("running_var", None)}, training=True)  # fmt: skip
    by_torch("LayerNorm", nn.LayerNorm(4), ROWS, both, places)
    by_keras("LayerNorm", K.LayerNormalization(epsilon=1e-5), ROWS, both, ["scale", "offset"])
    w = {"scale": draw(6, 4) + 1}
    by_keras("LayerNorm of two axes", K.LayerNormalization(axis=(2, 3), epsilon=1e-5, center=False), IMAGE, w, ["scale"])
    by_torch("GroupNorm", nn.GroupNorm(2, 4), IMAGE, both, places)
    by_keras("GroupNorm", K.GroupNormalization(2, epsilon=1e-5), IMAGE, both, ["scale", "offset"])
    by_torch("GroupNorm plain", nn.GroupNorm(2, 4, affine=False), IMAGE, {}, {})
    by_torch("InstanceNorm", nn.InstanceNorm2d(4, affine=True), IMAGE, both, places)
    by_torch("InstanceNorm with statistics", nn.InstanceNorm2d(4, affine=True, track_running_stats=True), IMAGE, moving,
             {**places, "mean": ("running_mean", None), "variance": ("running_var", None)}, training=True)  # fmt: skip
    by_torch("RMSNorm", nn.RMSNorm(4, 1e-5), ROWS, {"scale": scale}, places)
    by_keras("RMSNorm", K.RMSNormalization(epsilon=1e-5), ROWS, {"scale": scale}, ["scale"])
    by_torch("RMSNorm plain", nn.RMSNorm(4, 1e-5, elementwise_affine=False), ROWS, {}, {})
    by_torch("LocalResponseNorm", nn.LocalResponseNorm(3, 0.1), IMAGE, {}, {})
    by_keras("UnitNorm", K.UnitNormalization(), ROWS, {}, [])
    # torch's weight_norm keeps an output's length in [out, 1, ...].
    w = {"layer/kernel": draw(4, 3), "layer/bias": draw(3), "gain": draw(3)}
    layer = torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    names = ("parametrizations.weight.original0", "parametrizations.weight.original1")
    state = {"bias": w["layer/bias"], names[0]: w["gain"].reshape(3, 1), names[1]: w["layer/kernel"].T.copy()}
    layer.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
    put("torch", "WeightNorm of Dense", ROWS, w, layer(torch.from_numpy(ROWS)).detach().numpy())
    # rill estimates from one vector, of the outputs: torch's _u is that of weight [out, in], and _v follows from it.
    w = {"layer/kernel": draw(4, 3), "layer/bias": draw(3), "vector": draw(3)}
    u = w["vector"] / np.linalg.norm(w["vector"])
    v = w["layer/kernel"] @ u
    v /= np.linalg.norm(v)
    sigma = v @ w["layer/kernel"] @ u
    plain = lambda s: ROWS @ (w["layer/kernel"] / s) + w["layer/bias"]
    layer = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))
    state = layer.state_dict()
    state["bias"], state["parametrizations.weight.original"] = (torch.from_numpy(t) for t in (w["layer/bias"], w["layer/kernel"].T.copy()))
    state["parametrizations.weight.0._u"], state["parametrizations.weight.0._v"] = torch.from_numpy(u), torch.from_numpy(v)
    layer.load_state_dict(state)
    y = layer.eval()(torch.from_numpy(ROWS)).detach().numpy()
    assert np.allclose(y, plain(sigma), atol=1e-5)
    training = layer.train()(torch.from_numpy(ROWS)).detach().numpy()
    put("torch", "SpectralNorm", ROWS, w, y, training=training)


def others():
    x = image(2, 3, 4)
    for case, layer, a in [
        ("Flatten", K.Flatten(), x),
        ("Reshape", K.Reshape((4, -1)), x),
        ("Permute", K.Permute((2, 1)), x),
        ("RepeatVector", K.RepeatVector(3), image(2, 4)),
        ("Identity", K.Identity(), x),
        ("TimeDistributed", K.TimeDistributed(K.Flatten()), image(2, 3, 2, 2)),
    ]:
        by_keras(case, layer, a, {}, [])
    masked = x.copy()
    masked[0, 1] = masked[1, 2] = 0
    by_keras("Masking", K.Masking(), masked, {}, [])
    by_torch("PReLU", nn.PReLU(4), ROWS, {"slope": draw(4)}, {"slope": ("weight", None)})
    by_torch("PReLU each channel", nn.PReLU(4), ROWS, {"slope": draw(4)}, {"slope": ("weight", None)})
    put("torch", "Unflatten", x, {}, nn.Unflatten(-1, (2, 2))(torch.from_numpy(x)).numpy())


for family in [sums, convolutions, pools, spaces, norms, others]:
    family()
np.savez_compressed(sys.argv[1], **out)
print(f"{len({k.split('/', 2)[0] + k.split('/', 2)[1] for k in out})} cases, {len(out)} arrays")
