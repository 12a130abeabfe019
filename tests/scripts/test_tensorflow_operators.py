"""TensorFlow's operators one by one, read by rill: functions of tf.image, tf.signal, tf.strings and others, and operators
that only old graphs and gradients hold, must give what TensorFlow gives. tests/scripts/model_runner.cpp runs them. In the
environment .deps/formats (tests/formats.txt), which ./dev test --all makes; skipped where there is none.
"""
import os
import subprocess
import sys
import tempfile

from formats_environment import BUILD, needed

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
with needed():
    import numpy as np
    import tensorflow as tf
raw = tf.raw_ops
f32, i32, i64 = tf.float32, tf.int32, tf.int64


def some(*shape, seed=1, low=-1):
    return np.random.default_rng(seed).uniform(low, 1, shape).astype("float32")


IMAGE = some(2, 7, 6, 3, low=0)
ROWS = some(6, 4)
WORDS = np.array([["Hello, wörld", " a b  c "], ["x", "TensorFlow 2"]], dtype=object)


# Each is a function of one tensor, by a name: what it gives by names.
def resizes(x):
    y = {}
    for size in ((13, 4), (3, 12), (1, 1), (7, 6)):
        for method in ("bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"):
            for smooth in (False, True):
                y[f"{method}_{size[0]}_{size[1]}_{smooth}"] = tf.image.resize(x, size, method, antialias=smooth)
        for op in (raw.ResizeBilinear, raw.ResizeBicubic, raw.ResizeNearestNeighbor, raw.ResizeArea):
            y[f"{op.__name__}_{size[0]}_corners"] = op(images=x, size=size, align_corners=True)
            y[f"{op.__name__}_{size[0]}"] = op(images=x, size=size, align_corners=False)
    y["of_integers"] = tf.image.resize(tf.cast(x * 255, tf.uint8), (4, 9))
    y["nearest_integers"] = tf.image.resize(tf.cast(x * 255, tf.uint8), (4, 9), "nearest")
    return y


def resize_gradients(x):
    y = {}
    for name, f in (("bilinear", tf.image.ResizeMethod.BILINEAR), ("bicubic", "bicubic"), ("nearest", "nearest")):
        for size in ((13, 4), (3, 12)):
            y[f"{name}_{size[0]}"] = tf.gradients(tf.image.resize(x, size, f) ** 2, x)[0]
    return y


def crops(x):
    boxes = tf.constant([[0.1, 0.2, 0.8, 0.7], [0.9, 0.1, 0.2, 1.2], [-0.3, 0, 1, 1]])
    y = {}
    for method in ("bilinear", "nearest"):
        for size in ((4, 5), (1, 3)):
            y[f"{method}_{size[0]}"] = tf.image.crop_and_resize(x, boxes, [0, 1, 1], size, method, 0.5)
    cropped = tf.image.crop_and_resize(x, boxes, [0, 1, 1], (4, 5))
    y["by_image"], y["by_boxes"] = tf.gradients(cropped ** 2, [x, boxes])
    return y


def colours(x):
    grey = tf.image.rgb_to_grayscale(x)
    flat = tf.concat([x[:, :2], tf.tile(grey, [1, 1, 1, 3])[:, 2:]], 1)
    return {"hsv": tf.image.rgb_to_hsv(flat), "rgb": tf.image.hsv_to_rgb(x), "contrast": tf.image.adjust_contrast(x, 1.7),
            "hue": tf.image.adjust_hue(flat, 0.3), "saturation": tf.image.adjust_saturation(flat, 1.8), "grey": grey,
            "brightness": tf.image.adjust_brightness(x, 0.2), "gamma": tf.image.adjust_gamma(x, 0.7),
            "yuv": tf.image.rgb_to_yuv(x), "standard": tf.image.per_image_standardization(x),
            "sobel": tf.image.sobel_edges(x), "variation": tf.image.total_variation(x),
            "flip": tf.image.flip_left_right(x), "turned": tf.image.rot90(x), "crop": tf.image.central_crop(x, 0.5),
            "ssim": tf.image.ssim(x, x[::-1], 1.0, filter_size=3), "psnr": tf.image.psnr(x, x[::-1], 1.0)}


def patches(x):
    p = tf.image.extract_patches
    filters = tf.constant(some(2, 3, 3))
    blocks = tf.concat([x, x[:, :1]], 1)
    y = {"valid": p(x, [1, 3, 2, 1], [1, 2, 1, 1], [1, 1, 1, 1], "VALID"),
         "same": p(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 2, 1, 1], "SAME"),
         "volumes": tf.extract_volume_patches(x[:, None], [1, 1, 3, 2, 1], [1, 1, 2, 2, 1], "SAME"),
         "to_depth": tf.nn.space_to_depth(blocks, 2), "to_space": tf.nn.depth_to_space(tf.tile(x, [1, 1, 1, 4]), 2)}
    for padding in ("VALID", "SAME"):
        y["dilation_" + padding] = tf.nn.dilation2d(x, filters, [1, 2, 1, 1], padding, "NHWC", [1, 1, 2, 1])
    y["by_image"], y["by_filter"] = tf.gradients(y["dilation_SAME"] ** 2, [x, filters])
    return y


def boxes(x):
    corners = tf.concat([x[:, :2], x[:, :2] + tf.abs(x[:, 2:]) + 0.1], 1)
    scores = x[:, 0]
    s = tf.image.non_max_suppression
    y = {"plain": s(corners, scores, 4), "limits": s(corners, scores, 3, 0.1, -0.5),
         "first": raw.NonMaxSuppression(boxes=corners, scores=scores, max_output_size=5, iou_threshold=0.2)}
    y["padded"], y["valid"] = tf.image.non_max_suppression_padded(corners, scores, 9, 0.2, pad_to_max_output_size=True)
    y["five"], y["five_scores"], y["five_valid"] = raw.NonMaxSuppressionV5(
        boxes=corners, scores=scores, max_output_size=4, iou_threshold=0.3, score_threshold=-0.9, soft_nms_sigma=0.,
        pad_to_max_output_size=True)
    both = tf.reshape(corners, [1, -1, 1, 4])
    y.update(tf.image.combined_non_max_suppression(both, tf.stack([scores, -scores], 1)[None], 3, 4, 0.2,
                                                   -0.4)._asdict())
    return y


def transforms(x):
    z = tf.complex(x, x[::-1])
    s = tf.signal
    rows = tf.reshape(x, [2, -1])
    return {"fft": s.fft(z), "fft2": s.fft2d(z), "fft3": s.fft3d(z), "ifft": s.ifft(z), "ifft2": s.ifft2d(z),
            "ifft3": s.ifft3d(z), "rfft": s.rfft(x), "rfft_long": s.rfft(x, [11]), "rfft_short": s.rfft(x, [2]),
            "rfft2": s.rfft2d(x), "rfft3": s.rfft3d(x, [2, 4, 5]), "irfft": s.irfft(z), "irfft_n": s.irfft(z, [7]),
            "irfft2": s.irfft2d(z, [5, 4]), "irfft3": s.irfft3d(z), "dct": s.dct(x), "idct": s.idct(x, 2), "dct3": s.dct(x, 3), "dct4": s.dct(x, 4), "frames": s.frame(rows, 5, 3),
            "stft": s.stft(rows, 8, 4, pad_end=True), "istft": s.inverse_stft(s.stft(rows, 8, 4), 8, 4),
            "added": s.overlap_and_add(s.frame(rows, 6, 2), 2), "shift": s.fftshift(x), "mdct": s.mdct(rows, 8),
            "mel": s.linear_to_mel_weight_matrix(6, 9, 8000) + 0 * x[0, 0, 0], "hann": s.hann_window(7) + 0 * x[0, 0, 0],
            "gradient": tf.gradients(tf.abs(s.rfft2d(x)) ** 2, x)[0]}


def segments(x):
    ids, loose = tf.constant([0, 0, 1, 3, 3, 3]), tf.constant([2, -1, 0, 2, 5, 0])
    y = {}
    for name in ("sum", "prod", "min", "max", "mean"):
        y[name] = getattr(tf.math, "segment_" + name)(x, ids)
        y["loose_" + name] = getattr(tf.math, "unsorted_segment_" + name)(x, loose, 6)
        y["gradient_" + name] = tf.gradients(getattr(tf.math, "unsorted_segment_" + name)(x, loose, 6)[:3] ** 2, x)[0]
    y["loose_root"] = tf.math.unsorted_segment_sqrt_n(x, loose, 6)
    y["integers"] = tf.math.unsorted_segment_max(tf.cast(x * 9, i32), loose, 6)
    y["of_all_axes"] = tf.math.unsorted_segment_sum(x, tf.reshape(tf.range(24) % 5, [6, 4]), 5)
    for name in ("sum", "mean", "sqrt_n"):
        f = getattr(tf.sparse, "segment_" + name)
        y["sparse_" + name] = f(x, tf.constant([5, 0, 0, 2]), tf.constant([0, 0, 1, 3]))
        y["sparse_n_" + name] = f(x, tf.constant([5, 0, 0, 2]), tf.constant([0, 0, 1, 3]), num_segments=6)
    return y


def counts(x):
    n = tf.cast(tf.abs(x) * 9, i32)
    flat = tf.reshape(n, [-1])
    s = tf.constant([-0.5, 0., 0., 0.7])
    y = {"bins": raw.Bincount(arr=flat, size=5, weights=tf.zeros([0], i32)),
         "weights": raw.Bincount(arr=flat, size=12, weights=tf.reshape(x, [-1])),
         "rows": raw.DenseBincount(input=n, size=6, weights=tf.zeros([0])),
         "binary": raw.DenseBincount(input=n, size=12, weights=tf.zeros([0]), binary_output=True),
         "row_weights": raw.DenseBincount(input=n, size=12, weights=x),
         "histogram": tf.histogram_fixed_width(x, [-0.9, 0.8], 7),
         "bucket": raw.Bucketize(input=x, boundaries=[-0.5, 0., 0.7]),
         "bucket_integers": raw.Bucketize(input=n, boundaries=[2, 3]),
         "lower": tf.searchsorted(s, tf.reshape(x, [-1])), "upper": tf.searchsorted(s, tf.constant([0., 9, -9, .7]), "right"),
         "by_rows": tf.searchsorted(tf.sort(x, 1), x[:, ::-1], "right", i64),
         "in_top": tf.math.in_top_k([1, 3, 0, 0, 2, 7], x, 2), "nth": tf.math.top_k(x, 2).values,
         "smallest": raw.NthElement(input=x, n=1), "largest": raw.NthElement(input=x, n=1, reverse=True)}
    y["unique"], y["places"], y["times"] = tf.unique_with_counts(flat)
    y["unique2"], y["places2"] = tf.unique(flat, out_idx=i64)
    for axis in (0, 1, -1):
        y[f"slices{axis}"], y[f"slice_places{axis}"] = raw.UniqueV2(x=tf.cast(n > 4, i32), axis=[axis])
    y["slices"], y["slice_places"], y["slice_counts"] = raw.UniqueWithCountsV2(x=tf.cast(n > 2, i32), axis=[0])
    y["rest"], y["rest_places"] = raw.ListDiff(x=flat, y=[0, 3, 4])
    y["some"], y["others"] = tf.dynamic_partition(x, tf.cast(x > 0, i32), 2)
    y["part"] = tf.dynamic_partition(x, [1, 0, 1, 2, 0, 0], 4)[0]
    y["stitched"] = tf.dynamic_stitch([[5, 1], [0, 1], 2], [x[:2], x[2:4], x[5]])
    y["where"] = tf.where(x > 0)
    return y


def order(x):
    n = tf.constant([3, 1, 0, 2, 4, 5])
    wide = tf.reshape(x, [2, 3, 4])
    y = {"reverse": raw.Reverse(tensor=x, dims=[True, False]), "roll": tf.roll(wide, [1, -2], [0, 2]),
         "roll_twice": tf.roll(x, [2, 3], [1, 1]), "inverse": tf.math.invert_permutation(n),
         "sequence": tf.reverse_sequence(x, [1, 4, 0, 2, 3, 4], 1, 0), "sequence0": tf.reverse_sequence(wide, [0, 1, 2, 2], 0, 2),
         "unravel": tf.unravel_index([22, 3, 0], [2, 3, 4]), "diag": raw.Diag(diagonal=x[:2]),
         "diag_part": raw.DiagPart(input=tf.reshape(tf.tile(x, [6, 4]), [6, 4, 6, 4])[:, :, :, :]),
         "dim_map": raw.DataFormatDimMap(x=tf.constant([0, 1, 2, 3, -1])), "permute": raw.DataFormatVecPermute(x=[7, 8, 9, 10]),
         "permute_space": raw.DataFormatVecPermute(x=[8, 9]),
         "offsets": raw.ConcatOffset(concat_dim=1, shape=[[2, 3], [2, 5], [2, 1]])[2],
         "written": tf.tensor_scatter_nd_sub(x, [[1], [1]], x[:2]),
         "slice_update": raw.TensorStridedSliceUpdate(input=x, begin=[1, 0], end=[5, 4], strides=[2, 3], value=x[:2, :2]),
         "logsumexp": tf.math.cumulative_logsumexp(x, 1), "logsumexp2": tf.math.cumulative_logsumexp(x, 0, True, True),
         "bits": raw.PopulationCount(x=tf.cast(tf.abs(x) * 999, i32)), "near": raw.ApproximateEqual(x=x, y=x[::-1], tolerance=0.3),
         "added": raw.AccumulateNV2(inputs=[x, x, x], shape=[6, 4]),
         "default": tf.compat.v1.placeholder_with_default(x, [6, 4]), "expm": tf.linalg.expm(x[:4])}
    r0, r1 = raw.BroadcastGradientArgs(s0=[2, 1, 3], s1=[4, 3])
    y["sum0"], y["sum1"] = r0, r1
    return y


def gradients(x):
    """What tf.gradients writes."""
    image = tf.reshape(tf.tile(x, [2, 3]), [2, 6, 6, 2])
    kernel, volume = tf.constant(some(3, 3, 2, 4)), tf.reshape(tf.tile(x, [2, 3]), [2, 3, 3, 4, 2])
    y = {}
    for name in ("elu", "selu", "relu6", "softplus", "softsign", "leaky_relu", "relu", "silu", "gelu"):
        y[name] = tf.gradients(getattr(tf.nn, name)(x * 5) ** 2, x)[0]
    y["reciprocal"] = tf.gradients(tf.math.reciprocal(x + 3) ** 2, x)[0]
    y["bias"] = tf.gradients(tf.nn.bias_add(tf.constant(IMAGE), b := x[0, :3]) ** 2, b)[0]
    for name in ("max_pool2d", "avg_pool2d"):
        f = lambda t: getattr(tf.nn, name)(t, 3, 2, "SAME")
        y[name] = first = tf.gradients(f(image) ** 2, image)[0]
        y[name + "_twice"] = tf.gradients(first ** 2, image)[0]
    for name in ("max_pool3d", "avg_pool3d"):
        y[name] = tf.gradients(getattr(tf.nn, name)(volume, 2, 2, "SAME") ** 2, volume)[0]
    for padding in ("SAME", "VALID"):
        y["conv_x_" + padding], y["conv_w_" + padding] = tf.gradients(
            tf.nn.conv2d(image, kernel, [2, 1], padding) ** 2, [image, kernel])
        y["depth_x_" + padding], y["depth_w_" + padding] = tf.gradients(
            tf.nn.depthwise_conv2d(image, kernel, [1, 2, 2, 1], padding) ** 2, [image, kernel])
    kernel3 = tf.constant(some(2, 2, 2, 2, 3))
    y["conv3_x"], y["conv3_w"] = tf.gradients(tf.nn.conv3d(volume, kernel3, [1] * 5, "SAME") ** 2, [volume, kernel3])
    scale, offset = tf.constant([1.5, 0.5]), tf.constant([0.1, -0.2])
    for training in (True, False):
        given = {} if training else {"mean": scale * 0.1, "variance": scale}
        z = tf.compat.v1.nn.fused_batch_norm(image, scale, offset, is_training=training, **given)[0]
        for name, g in zip(("x", "scale", "offset"), tf.gradients(z ** 3, [image, scale, offset])):
            y[f"norm_{name}_{training}"] = g
    y["lrn"] = tf.gradients(tf.nn.lrn(image, 1, 1.2, 0.7) ** 2, image)[0]
    y["slice"] = tf.gradients(x[1:5:2, ::-1] ** 2, x)[0]
    y["new_axes"] = tf.gradients(x[1, None, ..., 2:] ** 2, x)[0]
    y["mirror"] = tf.gradients(tf.pad(x, [[2, 1], [0, 2]], "REFLECT") ** 2, x)[0]
    y["tile"] = tf.gradients(tf.tile(x, [2, 3]) ** 2, x)[0]
    y["take"] = tf.convert_to_tensor(tf.gradients(tf.gather(x, [1, 1, 3]) ** 2, x)[0])
    y["norm"] = tf.gradients(tf.norm(x, axis=1), x)[0]
    y["product"] = tf.gradients(tf.reduce_prod(x, 1), x)[0]
    y["cholesky"] = tf.gradients(tf.linalg.cholesky(tf.matmul(x, x, transpose_a=True)), x)[0]
    y["softmax"] = tf.gradients(tf.nn.softmax(x)[:, 0], x)[0]
    y["loss"] = tf.gradients(tf.nn.sparse_softmax_cross_entropy_with_logits([1, 0, 2, 3, 3, 3], x), x)[0]
    return y


def layers(x):
    image = tf.reshape(tf.tile(x, [2, 3]), [2, 6, 6, 2])
    y = {"lrn": tf.nn.lrn(image, 1, 1.2, 0.7, 0.4),
         "pool_v2": raw.MaxPoolV2(input=image, ksize=[1, 2, 3, 1], strides=[1, 2, 1, 1], padding="SAME"),
         "bias": raw.BiasAddV1(value=x, bias=x[0])}
    for batch in (False, True):
        y[f"max_{batch}"], y[f"places_{batch}"] = tf.nn.max_pool_with_argmax(image, 3, 2, "SAME", include_batch_in_index=batch)
    q = tf.quantization
    for bits in (8, 4):
        for narrow in (False, True):
            name = f"_{bits}_{narrow}"
            y["args" + name] = q.fake_quant_with_min_max_args(x * 3, -0.7, 2.1, bits, narrow)
            y["vars" + name] = v = q.fake_quant_with_min_max_vars(x, -0.4, 0.6, bits, narrow)
            y["channels" + name] = q.fake_quant_with_min_max_vars_per_channel(x, [-.1, -.2, 0, -9], [.5, .6, .7, 9], bits, narrow)
            for signed in (False, True):
                both = f"{name}_{signed}"
                y["given" + both] = q.quantize_and_dequantize_v2(x, -0.5 * signed, 0.6, signed, bits, True, narrow_range=narrow)
                y["up" + both] = q.quantize_and_dequantize_v2(tf.abs(x), 0, 0, signed, bits, False, "HALF_UP", narrow_range=narrow)
                y["own" + both] = q.quantize_and_dequantize_v2(
                    x, [0.] * 4, [0.] * 4, True, bits, False, narrow_range=narrow, axis=1)
    h = x[:, :2] * 0.5
    lstm = {"w": some(6, 8), "wci": some(2), "wcf": some(2, seed=2), "wco": some(2, seed=3), "b": some(8)}
    steps = tf.stack([x, x * 0.5, -x])
    for peep in (False, True):
        cell = raw.LSTMBlockCell(x=x, cs_prev=h, h_prev=-h, use_peephole=peep, cell_clip=0.3, forget_bias=0.5, **lstm)
        for name, t in cell._asdict().items():
            y[f"cell_{name}_{peep}"] = t
        for op in (raw.BlockLSTM, raw.BlockLSTMV2):
            for name, t in op(seq_len_max=tf.constant(3, i64), x=steps, cs_prev=h, h_prev=-h, use_peephole=peep,
                              cell_clip=0.4, **lstm)._asdict().items():
                y[f"{op.__name__}_{name}_{peep}"] = t
    gru = raw.GRUBlockCell(x=x, h_prev=h, w_ru=some(6, 4), w_c=some(6, 2), b_ru=some(4), b_c=some(2))
    y.update({f"gru_{k}": t for k, t in gru._asdict().items()})
    return y


def texts(x):
    s = tf.strings
    numbers = s.regex_replace(x, "[^0-9]+", "")
    split = s.split(tf.reshape(x, [-1])).to_sparse()
    by = s.split(tf.reshape(x, [-1]), ",").to_sparse()
    return {"lower": s.lower(x), "upper": s.upper(x), "strip": s.strip(x), "length": s.length(x),
            "points": s.length(x, "UTF8_CHAR"), "join": s.join([x, "-", x], "+"), "bucket": s.to_hash_bucket_fast(x, 97),
            "reduced": s.reduce_join(x, 1, separator="|"), "all": s.reduce_join(x, [1, 0], True, "/"),
            "matches": s.regex_full_match(x, ".*[a-z] .*"), "replaced": s.regex_replace(x, "[a-c]", "<\\0>", False),
            "numbers": s.to_number(s.join(["0", numbers]), i32), "part": s.substr(x, 0, 1), "same": x == "x", "other": x != "x",
            "as_string": s.as_string(s.length(x)), "plus": x + "!", "none": s.join([]), "upper_ascii": s.upper(s.substr(x, 0, 1), "utf-8"),
            "complex": s.as_string(tf.complex(v := tf.cast(s.length(x), f32) / 3, -v)), "floats": s.as_string(tf.cast(s.length(x), f32) / 3, 3),
            "padded": s.as_string(s.length(x), width=5, fill="0"), "long": s.as_string(tf.cast(s.length(x), f32) / 3),
            "parts": split.values, "places": split.indices, "sizes": split.dense_shape, "by": by.values,
            "raw": tf.io.decode_raw(s.substr(s.join([x, "...."]), 0, 4), tf.uint8)}


def lists(x):
    """TensorLists by their operators."""
    shape = tf.constant([4])
    made = raw.TensorListFromTensor(tensor=x, element_shape=shape)
    pushed = raw.EmptyTensorList(element_shape=shape, max_num_elements=-1, element_dtype=f32)
    for i in range(3):
        pushed = raw.TensorListPushBack(input_handle=pushed, tensor=x[i] * i)
    popped, last = raw.TensorListPopBack(input_handle=pushed, element_shape=shape, element_dtype=f32)
    scattered = raw.TensorListScatterV2(tensor=x[:3], indices=[3, 0, 1], element_shape=shape, num_elements=-1)
    rows = lambda h, n: raw.TensorListStack(input_handle=h, element_shape=shape, element_dtype=f32, num_elements=n)
    joined = raw.TensorListFromTensor(tensor=tf.reshape(x, [2, 3, 4]), element_shape=[3, 4])
    return {"pushed": rows(pushed, 3), "popped": rows(popped, 2), "last": last, "scattered": raw.TensorListGather(
                input_handle=scattered, indices=[3, 1, 0], element_shape=shape, element_dtype=f32),
            "shorter": rows(raw.TensorListResize(input_handle=made, size=2), 2), "length": raw.TensorListLength(input_handle=popped),
            "joined": raw.TensorListConcatV2(input_handle=joined, element_shape=[-1, 4], leading_dims=tf.zeros([0], i64),
                                             element_dtype=f32).tensor,
            "shape": raw.TensorListElementShape(input_handle=made, shape_type=i32)}


def sizes(x):
    """What graphs compute from sizes that the signature leaves open."""
    n, none = tf.shape(x), tf.zeros([0], i32)
    return {"floor_mod": (n - 9) % 3, "floor_div": (n - 9) // [2, 4], "up": -(-n // 4), "up_below": (9 - n) // -2,
            "truncated": raw.TruncateDiv(x=n - 9, y=[2, 4]), "halves": tf.reshape(x, [n[0] // 2, 2, -1]),
            "sum": raw.Sum(input=n, axis=none), "prod": raw.Prod(input=n, axis=none), "max": raw.Max(input=n, axis=none),
            "sum_of_one": raw.Sum(input=n[0], axis=none), "all": tf.reduce_sum(n), "narrow": tf.cast(tf.cast(n * 100, tf.uint8), i32) + 1,
            "narrow_quotient": tf.cast(tf.cast(n * 100, tf.int8), i64) // 7, "padded": tf.pad(x, [[0, (-n[0]) % 4], [0, 0]])}


def corners(x):
    """Values at the edges of what operators take."""
    i = lambda d: tf.cast(x * 99, d)
    y = {f"bits_{d.name}": raw.PopulationCount(x=i(d)) for d in (tf.int8, tf.int16, i32, i64)}
    odd = tf.concat([x, [[np.nan, 1, 2, 3], [np.inf, 1, 2, 3], [1, -np.inf, 2, 3]]], 0)
    y["in_top"] = tf.math.in_top_k([1, 3, 0, 0, 2, 1, 3, 3, 3], odd, 2)
    empty = x[:, :0]
    for d in (f32, tf.float64, tf.float16, i32, i64, tf.int8, tf.uint8, tf.uint16):
        y[f"max_{d.name}"], y[f"min_{d.name}"] = tf.reduce_max(tf.cast(empty, d), 1), tf.reduce_min(tf.cast(empty, d), 1, True)
    y["wide_product"] = raw.BatchMatMulV3(x=i(tf.int8), y=i(tf.int8), Tout=i32, adj_y=True)
    y["sigmoid"] = tf.sigmoid(tf.complex(x, x[::-1]))
    return y


def draws(x):
    """Whether random numbers have the mean, the spread and the limits that they should."""
    r, n, y = tf.random, [20000], {}
    near = lambda t, mean, spread: (abs(tf.reduce_mean(t) - mean) < 0.05) & (abs(tf.math.reduce_std(t) - spread) < 0.05)
    for name, t in (("uniform", r.uniform(n)), ("stateless", r.stateless_uniform(n, [1, 2])),
                    ("old", raw.StatelessRandomUniform(shape=n, seed=[3, 4]))):
        y[name] = near(t, 0.5, 0.2887) & (tf.reduce_min(t) >= 0) & (tf.reduce_max(t) < 1)
    for name, t in (("normal", r.normal(n)), ("stateless_normal", r.stateless_normal(n, [1, 2]))):
        y[name] = near(t, 0, 1)
    for name, t in (("cut", r.truncated_normal(n)), ("stateless_cut", r.stateless_truncated_normal(n, [1, 2]))):
        y[name] = near(t, 0, 0.8796) & (tf.reduce_max(abs(t)) <= 2)
    for name, t in (("integers", r.uniform(n, -2, 3, i32)), ("stateless_integers", r.stateless_uniform(n, [1, 2], -2, 3, i32))):
        y[name] = near(tf.cast(t, f32), 0, 1.4142) & (tf.reduce_min(t) == -2) & (tf.reduce_max(t) == 2)
    for name, t in (("classes", r.categorical([[0., 0.6931]], 20000)), ("stateless_classes", r.stateless_categorical(
            [[0., 0.6931]], 20000, [1, 2]))):
        y[name] = near(tf.cast(t, f32), 0.6667, 0.4714)
    y["shuffled"] = tf.sort(r.shuffle(x[:, 0]))
    y["same"] = tf.reduce_all(r.stateless_normal([9], [5, 6]) == r.stateless_normal([9], [5, 6]))
    y["other"] = tf.reduce_any(r.stateless_normal([9], [5, 6]) != r.stateless_normal([9], [5, 7]))
    return y


FAMILIES = {"resizes": (resizes, IMAGE), "resize_gradients": (resize_gradients, IMAGE), "crops": (crops, IMAGE),
            "colours": (colours, IMAGE), "patches": (patches, IMAGE), "boxes": (boxes, some(8, 4)),
            "transforms": (transforms, some(2, 6, 4)), "segments": (segments, ROWS), "counts": (counts, ROWS),
            "order": (order, ROWS), "gradients": (gradients, ROWS), "layers": (layers, ROWS), "texts": (texts, WORDS),
            "lists": (lists, ROWS), "draws": (draws, ROWS), "sizes": (sizes, ROWS), "corners": (corners, ROWS)}
# Those whose results have sizes that depend on values, or hold text, run op by op.
BY_OP = {"boxes", "counts", "texts"}
# Those whose signature leaves every size open.
OPEN = {"sizes"}


def write(folder, name, f, given):
    """The model and its input for model_runner; what it should give."""
    m = tf.Module()
    dtype = tf.string if given.dtype == object else given.dtype
    shape = [None] * given.ndim if name in OPEN else given.shape
    m.f = tf.function(f, input_signature=[tf.TensorSpec(shape, dtype, "x")], autograph=False)
    path = f"{folder}/models/{name}"
    tf.saved_model.save(m, path, signatures=m.f)
    os.makedirs(f"{folder}/{name}")
    with open(f"{folder}/{name}/path", "w", encoding="utf-8") as file:
        file.write(path)
    np.savez(f"{folder}/{name}/inputs.npz", x=np.char.encode(given.astype(str), "utf-8") if given.dtype == object else given)
    return {k: np.asarray(v) for k, v in m.f(tf.constant(given)).items()}


def faults_of(folder, name, want):
    place = f"{folder}/{name}"
    if os.path.exists(f"{place}/error"):
        with open(f"{place}/error", encoding="utf-8") as file:
            return [file.read()]
    got = {k: np.char.encode(v, "utf-8") if v.dtype.kind == "U" else v for k, v in np.load(f"{place}/outputs.npz").items()}
    faults = [] if sorted(got) == sorted(want) else [f"gives {sorted(got)}, and should give {sorted(want)}"]
    for key, value in want.items():
        if value.dtype == object:
            value = value.astype("S")
        if key not in got:
            continue
        if got[key].shape != value.shape or got[key].dtype.kind != value.dtype.kind or (
                value.dtype.kind != "S" and got[key].dtype != value.dtype):
            faults.append(f"{key}: {got[key].dtype}{got[key].shape} where {value.dtype}{value.shape} is right")
        elif value.dtype.kind == "S":
            if (got[key] != value).any():
                faults.append(f"{key}: {got[key].tolist()} where {value.tolist()} is right")
        elif not np.allclose(got[key], value, rtol=1e-4, atol=1e-5, equal_nan=True):
            with np.errstate(invalid="ignore"):
                faults.append(f"{key} is off by {np.abs(got[key].astype('f8') - value).max()}")
    with open(f"{place}/explain", encoding="utf-8") as file:
        if ("runs op by op" in (text := file.read())) != (name in BY_OP):
            faults.append(text[:300])
    return faults


def main():
    chosen = {n: f for n, f in FAMILIES.items() if len(sys.argv) == 1 or n in sys.argv}
    with tempfile.TemporaryDirectory() as folder:
        wanted = {name: write(folder, name, *f) for name, f in chosen.items()}
        subprocess.run([f"{BUILD}/tests/model_runner", *(f"{folder}/{name}" for name in wanted)], check=False)
        faults = [(name, wrong) for name, want in wanted.items() for wrong in faults_of(folder, name, want)]
    print(f"{sum(map(len, wanted.values()))} results of {len(wanted)} models, {len(faults)} faults")
    for name, wrong in faults:
        print(name, "|", wrong[:600])
    sys.exit(1 if faults else 0)


main()
