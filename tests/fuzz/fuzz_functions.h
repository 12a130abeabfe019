// The public functions that fuzz_api.cpp calls, each with the types of its arguments; those that take functions are in
// fuzz_transforms.h.
//
// A new public function is a line in `functions`; a new type of argument a make<T>() in fuzz_api.h.
#pragma once
#include <complex>

#include "fuzz_calls.h"
#include "rill/ops/blocks.h"

namespace fuzz {

using Key = random::Key;
using Where = rill::Where;
using List = std::vector<Tensor>;
using Numbers = std::vector<int64_t>;
using MaybeInt = std::optional<int64_t>;

inline linalg::MatrixOrd matrix_ord(int64_t which, double other) {
  return which == 0 ? "fro" : which == 1 ? "nuc" : which == 2 ? "other" : linalg::MatrixOrd(other);
}
inline List least_squares(const Tensor& a, const Tensor& b, std::optional<double> rtol) {
  const linalg::Lstsq y = linalg::lstsq(a, b, {.rtol = rtol});
  return {y.solution, y.residuals, y.rank, y.singular_values};
}
// Lengths beyond these would be accepted and take long.
inline fft::FftOptions fft_options(int64_t n, int64_t axis, int64_t norm) {
  fft::FftOptions o{.axis = axis, .norm = fft::Norm(uint64_t(norm) % 3)};
  if (n != 0) o.n = n % 64;
  return o;
}
inline fft::FftnOptions fftn_options(const Shape& s, const Axes& axes, int64_t norm) {
  fft::FftnOptions o{.norm = fft::Norm(uint64_t(norm) % 3)};
  if (!s.empty()) o.s = s;
  if (!axes.empty()) o.axes = axes;
  return o;
}
inline fft::Fft2Options fft2_options(const Shape& s, const Axes& axes, int64_t norm) {
  const fft::FftnOptions o = fftn_options(s, axes, norm);
  return {.s = o.s, .axes = o.axes.value_or(Axes{-2, -1}), .norm = o.norm};
}

// Degrees beyond these would be accepted and take long.
inline Tensor polynomial(Tensor (*f)(int64_t, const Tensor&, Where), int64_t n, const Tensor& x) {
  return f(n % 100, x, Where::current());
}
// A layer made and called with the rest of the arguments.
inline Tensor sgd_step(const Variable& v, const Tensor& g, double rate, double momentum) {
  nn::SGD sgd({.learning_rate = rate, .momentum = momentum});
  sgd.apply_gradients({g}, {v});
  return v.value();
}

inline Tensor scatter_rows(const Variable& v, const Tensor& ids, const Tensor& rows) {
  Variable(v).scatter_update(ids, rows).scatter_add(ids, rows).scatter_sub(ids, rows);
  return v.value();
}
inline Tensor sparse_step(const Variable& v, const Tensor& values, const Tensor& ids, double max_norm) {
  const Gradient g = IndexedSlices{values, ids, v.shape()};
  nn::Adam().apply_gradients(
      clip_by_global_norm(std::vector{clip_by_value(g, -max_norm, max_norm)}, max_norm).gradients, {v});
  return v.value();
}

const Function functions[] = {
    UNARY(exp), UNARY(exp2), UNARY(expm1), UNARY(log), UNARY(log2), UNARY(log10), UNARY(log1p), UNARY(sqrt),
    UNARY(rsqrt), UNARY(cbrt), UNARY(reciprocal), UNARY(sin), UNARY(cos), UNARY(tan), UNARY(asin), UNARY(acos),
    UNARY(atan), UNARY(sinh), UNARY(cosh), UNARY(tanh), UNARY(asinh), UNARY(acosh), UNARY(atanh), UNARY(sigmoid),
    UNARY(softplus), UNARY(erf), UNARY(erfc), UNARY(erfinv), UNARY(lgamma), UNARY(digamma), UNARY(erfcx), UNARY(entr), UNARY(j0), UNARY(j1), UNARY(y0), UNARY(y1), UNARY(i0), UNARY(i1), UNARY(i0e), UNARY(i1e), UNARY(k0), UNARY(k1), BINARY(polygamma), BINARY(zeta), BINARY(igamma), BINARY(igammac), BINARY(betaln), FN(betainc, Tensor, Tensor, Tensor), FN(multigammaln, Tensor, int64_t), UNARY(negative),
    UNARY(square), UNARY(sign), UNARY(relu), UNARY(floor), UNARY(ceil), UNARY(trunc), UNARY(round), UNARY(abs),
    UNARY(conj), UNARY(real), UNARY(imag), UNARY(angle), UNARY(bitwise_not), UNARY(logical_not), UNARY(isnan),
    UNARY(isinf), UNARY(isfinite), UNARY(signbit), UNARY(silu), UNARY(log_sigmoid), UNARY(relu6), UNARY(softsign),
    UNARY(sinc), UNARY(deg2rad), UNARY(rad2deg), UNARY(stop_gradient), UNARY(identity), FN(gelu, Tensor, bool),
    FN(nan_to_num, Tensor, double), BINARY(add), BINARY(subtract), BINARY(multiply), BINARY(multiply_no_nan),
    BINARY(divide), BINARY(floor_divide), BINARY(remainder), BINARY(fmod), BINARY(power), BINARY(maximum),
    BINARY(minimum), BINARY(fmax), BINARY(fmin), BINARY(atan2), BINARY(hypot), BINARY(copysign), BINARY(nextafter),
    BINARY(logaddexp), BINARY(logaddexp2), BINARY(heaviside), BINARY(xlogy), BINARY(squared_difference),
    BINARY(bitwise_and), BINARY(bitwise_or), BINARY(bitwise_xor), BINARY(left_shift), BINARY(right_shift), BINARY(gcd),
    BINARY(lcm), BINARY(logical_and), BINARY(logical_or), BINARY(logical_xor), BINARY(equal), BINARY(not_equal),
    BINARY(less), BINARY(less_equal), BINARY(greater), BINARY(greater_equal), BINARY(complex), OPERATOR(+), OPERATOR(-),
    OPERATOR(*), OPERATOR(/), OPERATOR(%), OPERATOR(&), OPERATOR(|), OPERATOR(^), OPERATOR(<<), OPERATOR(>>),
    OPERATOR(==), OPERATOR(<), FN(rill::where, Tensor, Tensor, Tensor), FN(clip, Tensor, Tensor, Tensor),
    FN(astype, Tensor, DType), FN(bitcast, Tensor, DType), FN(allclose, Tensor, Tensor, CloseOptions),
    FN(isclose, Tensor, Tensor, CloseOptions), BINARY(array_equal), BINARY(same_bits),

    UNARY(tgamma), UNARY(factorial), UNARY(log_ndtr), UNARY(erfcinv), UNARY(lambertw), UNARY(k0e), UNARY(k1e),
    UNARY(exp1), UNARY(expi), UNARY(dawsn), UNARY(ellipk), UNARY(ellipe), UNARY(sici), UNARY(fresnel), UNARY(airy),
    BINARY(beta), BINARY(binom), BINARY(xlog1py), BINARY(rel_entr), BINARY(kl_div), BINARY(jv), BINARY(iv), BINARY(kv),
    BINARY(spherical_jn), RUN("eval_legendre", polynomial(eval_legendre, x...), int64_t, Tensor),
    RUN("eval_chebyt", polynomial(eval_chebyt, x...), int64_t, Tensor),
    RUN("eval_hermite", polynomial(eval_hermite, x...), int64_t, Tensor), UNARY(isposinf), UNARY(isneginf),
    UNARY(isreal), UNARY(iscomplex), UNARY(bitwise_count), UNARY(spacing), BINARY(float_power), BINARY(array_equiv),

    FN(hsplit, Tensor, int64_t), FN(vsplit, Tensor, int64_t), FN(dsplit, Tensor, int64_t), UNARY(flatnonzero),
    FN(ediff1d, Tensor, Tensor, Tensor), FN(diagflat, Tensor, int), BINARY(matvec), BINARY(vecmat),
    FN(choose, Tensor, List), UNARY(trim_zeros), FN(diag_indices, int64_t, int64_t), FN(ix_, List), BINARY(polysub),
    BINARY(polydiv), UNARY(poly), UNARY(roots), FN(pdist, Tensor, double), BINARY(pairwise_distance),
    BINARY(linalg::tensorsolve), FN(linalg::tensorinv, Tensor, int64_t),

    FN(reshape, Tensor, Shape), FN(transpose, Tensor, Axes), FN(broadcast_to, Tensor, Shape),
    FN(strided_slice, Tensor, Dims, Dims, Dims), FN(update_slice, Tensor, Tensor, Dims, Dims, Dims),
    FN(slice_axis, Tensor, int64_t, int64_t, int64_t), FN(broadcast_shapes, Shape, Shape), FN(broadcast_arrays, List),
    FN(squeeze, Tensor, Axes), FN(expand_dims, Tensor, Axes), FN(swapaxes, Tensor, int64_t, int64_t),
    FN(moveaxis, Tensor, Axes, Axes), FN(flatten, Tensor, int64_t, int64_t), UNARY(ravel), UNARY(atleast_1d),
    UNARY(atleast_2d), UNARY(atleast_3d), FN(reverse, Tensor, Axes), FN(flip, Tensor, Axes), UNARY(fliplr),
    UNARY(flipud), FN(rot90, Tensor, int64_t, Axes), FN(roll, Tensor, Axes, Axes), FN(tile, Tensor, Axes),
    FN(repeat, Tensor, int64_t, MaybeInt), FN(repeat, Tensor, Numbers, MaybeInt), FN(repeat, Tensor, Tensor, MaybeInt),
    FN(unflatten, Tensor, int64_t, Shape), FN(sliding_window_view, Tensor, Axes, Axes), FN(block_diag, List),
    FN(cartesian_prod, List), FN(space_to_depth, Tensor, int64_t),
    FN(depth_to_space, Tensor, int64_t), FN(pad, Tensor, std::vector<Padding>, Tensor),
    FN(pad, Tensor, std::vector<Padding>, PadMode), FN(concat, List, int64_t), FN(stack, List, int64_t),
    FN(hstack, List), FN(vstack, List), FN(dstack, List), FN(split, Tensor, int64_t, int64_t),
    FN(split_at, Tensor, Numbers, int64_t), FN(array_split, Tensor, int64_t, int64_t), FN(unstack, Tensor, int64_t),

    FN(zeros, Shape, TensorOptions), FN(ones, Shape, TensorOptions), FN(full, Shape, Tensor, TensorOptions),
    RUN("empty", zeros_like(empty(x...)), Shape, TensorOptions), FN(zeros_like, Tensor, TensorOptions),
    FN(ones_like, Tensor, TensorOptions), FN(full_like, Tensor, Tensor, TensorOptions),
    FN(arange, rill::detail::Number, rill::detail::Number, rill::detail::Number, TensorOptions),
    FN(iota, Shape, int64_t, TensorOptions), FN(linspace, double, double, int64_t, bool, TensorOptions),
    FN(logspace, double, double, int64_t, double, TensorOptions), FN(eye, int64_t, int64_t, int64_t, TensorOptions),
    FN(tri, int64_t, int64_t, int64_t, TensorOptions), FN(tril, Tensor, int64_t), FN(triu, Tensor, int64_t),
    FN(meshgrid, List), RUN("tensor", tensor(std::vector<float>{1, 2}, x...), Shape, TensorOptions),

    FN(sum, Tensor, SumOptions), FN(prod, Tensor, SumOptions), REDUCTION(max), REDUCTION(min),
    FN(mean, Tensor, SumOptions), REDUCTION(rill::all),
    REDUCTION(rill::any), FN(sum_to, Tensor, Shape), FN(argmax, Tensor, MaybeInt, bool),
    FN(argmin, Tensor, MaybeInt, bool), FN(var, Tensor, VarianceOptions), FN(stddev, Tensor, VarianceOptions),
    REDUCTION(logsumexp), REDUCTION(count_nonzero), REDUCTION(ptp), REDUCTION(median), REDUCTION(nansum),
    REDUCTION(nanprod), REDUCTION(nanmean), REDUCTION(nanmax), REDUCTION(nanmin), FN(nanvar, Tensor, VarianceOptions),
    FN(nanstd, Tensor, VarianceOptions), FN(norm, Tensor, NormOptions), FN(quantile, Tensor, Tensor, QuantileOptions),
    FN(percentile, Tensor, Tensor, QuantileOptions), FN(average, Tensor, Tensor, ReduceOptions),
    FN(cov, Tensor, double), UNARY(corrcoef), FN(bincount, Tensor, BincountOptions),
    FN(histogram, Tensor, HistogramOptions), FN(histogram_bin_edges, Tensor, HistogramOptions),
    FN(rill::round, Tensor, int64_t), UNARY(frac), BINARY(rill::polar), FN(combinations, Tensor, CombinationsOptions), FN(cumsum, Tensor, RunningSumOptions),
    FN(cumprod, Tensor, RunningSumOptions), FN(cummax, Tensor, CumulativeOptions), FN(cummin, Tensor, CumulativeOptions),
    FN(cumlogsumexp, Tensor, CumulativeOptions), FN(diff, Tensor, int64_t, int64_t), FN(sort, Tensor, SortOptions),
    FN(argsort, Tensor, SortOptions), FN(topk, Tensor, int64_t, TopKOptions), FN(searchsorted, Tensor, Tensor, bool),
    FN(digitize, Tensor, Tensor, bool), UNARY(unique),

    FN(gather, Tensor, List, GatherAttrs), FN(scatter, Tensor, List, Tensor, GatherAttrs, ScatterMode),
    FN(take, Tensor, Tensor, MaybeInt), FN(take_along_axis, Tensor, Tensor, int64_t),
    FN(put_along_axis, Tensor, Tensor, Tensor, int64_t, ScatterMode), BINARY(gather_nd),
    FN(segment_sum, Tensor, Tensor, int64_t), UNARY(nonzero), UNARY(argwhere), FN(boolean_mask, Tensor, Tensor, int64_t),
    RUN("dlpack", from_dlpack(to_dlpack(x...)), Tensor), RUN("dlpack, copied", from_dlpack(to_dlpack_unversioned(x...)), Tensor),
    {"to_string",
     [](Arguments& a) {
       return call<Tensor, int64_t, int64_t, bool>(
           a,
           [](const Tensor& t, int64_t precision, int64_t edge, bool suppress) {
             return to_string(t, {.precision = int(precision),
                                  .threshold = 10,
                                  .edge_items = edge,
                                  .suppress = suppress,
                                  .float_mode = FloatMode(precision % 4)});
           });
     }},
    {"operator()",
     [](Arguments& a) {
       return call<Tensor, Index, Index, Index>(
           a, [](const Tensor& t, const Index& i, const Index& j, const Index& k) { return t(i, j, k); });
     }},
    {"at().set()",
     [](Arguments& a) {
       return call<Tensor, Tensor, Index, Index, ScatterMode>(
           a,
           [](const Tensor& t, const Tensor& v, const Index& i, const Index& j, ScatterMode m) {
             auto place = t.at(i, j);
             return m == ScatterMode::set        ? std::move(place).set(v)
                    : m == ScatterMode::add      ? std::move(place).add(v)
                    : m == ScatterMode::multiply ? std::move(place).multiply(v)
                    : m == ScatterMode::min      ? std::move(place).min(v)
                                                 : std::move(place).max(v);
           });
     }},

    FN(dot_general, Tensor, Tensor, ContractionParams), BINARY(matmul), FN(einsum, std::string, List),
    FN(tensordot, Tensor, Tensor, int), FN(tensordot, Tensor, Tensor, Axes, Axes), BINARY(dot), BINARY(vdot),
    BINARY(inner), BINARY(outer), BINARY(kron), FN(cross, Tensor, Tensor, int), FN(diagonal, Tensor, int, int, int),
    FN(diag, Tensor, int), FN(diag_embed, Tensor, int, int64_t, int64_t), FN(trace, Tensor, int, int, int), UNARY(matrix_transpose),

    BINARY(linalg::solve), UNARY(linalg::inv), UNARY(linalg::det), UNARY(linalg::slogdet), UNARY(linalg::lu),
    UNARY(linalg::svdvals), UNARY(linalg::eigh), UNARY(linalg::eigvalsh), UNARY(linalg::eig), UNARY(linalg::eigvals),
    UNARY(linalg::expm), FN(linalg::multi_dot, List), FN(linalg::vecdot, Tensor, Tensor, int64_t),
    UNARY(linalg::toeplitz), FN(linalg::hankel, Tensor, Tensor), UNARY(linalg::circulant), UNARY(linalg::companion),
    FN(linalg::hadamard, int64_t, TensorOptions), FN(linalg::hilbert, int64_t, TensorOptions),
    BINARY(linalg::khatri_rao), BINARY(linalg::cholesky_solve), UNARY(linalg::null_space), UNARY(linalg::orth),
    FN(linalg::polar, Tensor, bool), FN(linalg::diagonal, Tensor, int), FN(linalg::trace, Tensor, int),
    FN(least_squares, Tensor, Tensor, std::optional<double>),
    FN(sampled_matmul, Tensor, Tensor, Tensor, Tensor),
    BINARY(strings::equal), BINARY(strings::less), BINARY(strings::add), BINARY(strings::starts_with),
    BINARY(strings::find), BINARY(strings::count), FN(strings::sort, Tensor, int64_t), UNARY(strings::unique),
    UNARY(strings::length), FN(strings::substr, Tensor, Tensor, Tensor), FN(strings::join, List, std::string),
    FN(strings::reduce_join, Tensor, MaybeInt, std::string), FN(strings::split, Tensor, std::string, int64_t),
    UNARY(strings::upper), UNARY(strings::strip), FN(strings::replace, Tensor, std::string, std::string, int64_t),
    FN(strings::regex_full_match, Tensor, std::string),
    FN(strings::regex_replace, Tensor, std::string, std::string, bool), FN(strings::to_number, Tensor, DType),
    RUN("strings::as_string", strings::as_string(x...), Tensor), UNARY(strings::fingerprint),
    FN(strings::to_hash_bucket, Tensor, int64_t), FN(strings::decode_raw, Tensor, DType, bool),
    FN(strings::encode_raw, Tensor, bool),
    UNARY(strings::lower_utf8), UNARY(strings::upper_utf8), UNARY(strings::case_fold), UNARY(strings::strip_accents),
    FN(strings::regex_split, Tensor, std::string), FN(strings::to_cross_bucket, List, int64_t),
    {"SparseTensor",
     [](Arguments& a) {
       return call<Tensor, Tensor, Shape>(
           a, [](const Tensor& indices, const Tensor& values,
                 const Shape& shape) { return SparseTensor(indices, values, shape).to_dense(); });
     }},
    {"SparseTensor::coalesce",
     [](Arguments& a) {
       return call<Tensor, Axes>(
           a,
           [](const Tensor& x, const Axes& axes) {
             const Tensor values = ravel(x), places = arange(values.size()) % 3;
             const SparseTensor s(stack({places, places}, 1), values, {3, 4});
             return Results{s.coalesce().values(), s.to_dense(), sum(s, axes), s(slice(1, none)).values()};
           });
     }},
    {"sparse * dense",
     [](Arguments& a) {
       return call<Tensor, Tensor>(
           a, [](const Tensor& x, const Tensor& y) { return (SparseTensor::from_dense(x) * y).values(); });
     }},
    {"sparse matmul",
     [](Arguments& a) {
       return call<Tensor, Tensor>(
           a,
           [](const Tensor& x, const Tensor& y) {
             const SparseTensor s = SparseTensor::from_dense(x);
             return Results{matmul(s, y), matmul(s.transpose(), s).values()};
           });
     }},
    {"matmul_transposed",
     [](Arguments& a) {
       return call<Tensor, Tensor, Tensor>(
           a,
           [](const Tensor& x, const Tensor& bytes, const Tensor& rows) {
             const Blocks w{bytes, "q8_0"};
             return Results{matmul_transposed(x, w), take(w, rows), w.values()};
           });
     }},
    {"linalg::triangular_solve",
     [](Arguments& a) {
       return call<Tensor, Tensor, bool, bool, bool, bool, bool>(
           a,
           [](const Tensor& x, const Tensor& y, auto... flags) { return linalg::triangular_solve(x, y, {rill::detail::NamedOnly(), flags...}); });
     }},
    {"linalg::cholesky",
     [](Arguments& a) {
       return call<Tensor, bool>(a, [](const Tensor& x, bool upper) { return linalg::cholesky(x, {.upper = upper}); });
     }},
    {"linalg::qr",
     [](Arguments& a) {
       return call<Tensor, bool>(a, [](const Tensor& x, bool whole) { return linalg::qr(x, linalg::QrMode(whole)); });
     }},
    {"linalg::svd",
     [](Arguments& a) {
       return call<Tensor, bool>(a, [](const Tensor& x, bool full) { return linalg::svd(x, {.full_matrices = full}); });
     }},
    {"linalg::pinv",
     [](Arguments& a) {
       return call<Tensor, double>(a, [](const Tensor& x, double rtol) { return linalg::pinv(x, {.rtol = rtol}); });
     }},
    {"linalg::matrix_rank",
     [](Arguments& a) {
       return call<Tensor, double>(
           a, [](const Tensor& x, double rtol) { return linalg::matrix_rank(x, {.rtol = rtol}); });
     }},
    {"linalg::matrix_norm",
     [](Arguments& a) {
       return call<Tensor, bool, int64_t, double>(
           a,
           [](const Tensor& x, bool keepdims, int64_t which, double other) {
             return linalg::matrix_norm(x, {.keepdims = keepdims, .ord = matrix_ord(which, other)});
           });
     }},
    {"linalg::cond",
     [](Arguments& a) {
       return call<Tensor, int64_t, double>(
           a, [](const Tensor& x, int64_t which, double other) { return linalg::cond(x, matrix_ord(which, other)); });
     }},
    {"linalg::matrix_power",
     [](Arguments& a) {
       return call<Tensor, int64_t>(a, [](const Tensor& x, int64_t n) { return linalg::matrix_power(x, n % 100); });
     }},

    LINE(fft::fft), LINE(fft::ifft), LINE(fft::rfft), LINE(fft::irfft), LINE(fft::hfft), LINE(fft::ihfft),
    GRID(fft::fftn, fftn_options), GRID(fft::ifftn, fftn_options), GRID(fft::rfftn, fftn_options),
    GRID(fft::irfftn, fftn_options), GRID(fft::fft2, fft2_options), GRID(fft::ifft2, fft2_options),
    GRID(fft::rfft2, fft2_options), GRID(fft::irfft2, fft2_options), FN(fft::fftshift, Tensor, Axes),
    FN(fft::ifftshift, Tensor, Axes),

    FN(softmax, Tensor, int64_t), FN(log_softmax, Tensor, int64_t),
    FN(layer_norm, Tensor, Tensor, Tensor, NormalizeOptions), FN(layer_norm, Tensor, NormalizeOptions),
    FN(batch_norm, Tensor, Tensor, Tensor, NormalizeOptions),
    FN(batch_norm_inference, Tensor, Tensor, Tensor, Tensor, Tensor, NormalizeOptions), FN(moments, Tensor, Axes, bool),
    FN(l2_normalize, Tensor, int64_t, double), BINARY(softmax_cross_entropy), BINARY(sparse_softmax_cross_entropy),
    BINARY(sigmoid_cross_entropy), BINARY(mean_squared_error), BINARY(mean_absolute_error),
    FN(huber_loss, Tensor, Tensor, double), BINARY(hinge_loss), BINARY(kl_divergence),
    FN(cosine_similarity, Tensor, Tensor, int64_t), FN(leaky_relu, Tensor, double), FN(elu, Tensor, double),
    FN(celu, Tensor, double), UNARY(selu), UNARY(mish), UNARY(hard_tanh), UNARY(hard_sigmoid), UNARY(hard_swish),
    FN(glu, Tensor, int64_t), FN(dropout, Tensor, double, DropoutOptions),
    FN(one_hot, Tensor, int64_t, OneHotOptions), BINARY(embedding_lookup),
    FN(adam_update, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, AdamParams),
    FN(clip_by_norm, Tensor, double, Axes), FN(global_norm, List), FN(clip_by_global_norm, List, double),

    FN(softmin, Tensor, int64_t), BINARY(prelu), UNARY(rrelu), FN(hard_shrink, Tensor, double),
    FN(soft_shrink, Tensor, double), UNARY(tanh_shrink), FN(threshold, Tensor, double, double),
    FN(squareplus, Tensor, double), UNARY(sparse_plus), UNARY(sparse_sigmoid), FN(sparsemax, Tensor, int64_t),
    FN(alpha_dropout, Tensor, double, DropoutOptions), FN(channel_dropout, Tensor, double),
    FN(rms_norm, Tensor, Tensor, NormalizeOptions), FN(rms_norm, Tensor, NormalizeOptions),
    FN(group_norm, Tensor, int64_t, Tensor, Tensor, NormalizeOptions),
    FN(group_norm, Image, int64_t, NormalizeOptions), FN(instance_norm, Image, NormalizeOptions),
    FN(instance_norm, Tensor, Tensor, Tensor, NormalizeOptions), UNARY(local_response_norm),
    {"gumbel_softmax",
     [](Arguments& a) {
       return call<Tensor, double, bool, int64_t>(
           a,
           [](const Tensor& x, double temperature, bool hard, int64_t axis) {
             return gumbel_softmax(x, {.temperature = temperature, .hard = hard, .axis = axis});
           });
     }},
    {"embedding_bag",
     [](Arguments& a) {
       return call<Tensor, Tensor, Tensor, int64_t, int64_t>(
           a,
           [](const Tensor& table, const Tensor& ids, const Tensor& more, int64_t mode, int64_t which) {
             EmbeddingBagOptions o{.mode = BagMode(uint64_t(mode) % 3)};
             if (which == 1) o.weights = more;
             if (which == 2) o.offsets = more;
             if (which < 0) o.padding = mode;
             return embedding_bag(table, ids, o);
           });
     }},
    FN(bilinear, Tensor, Tensor, Tensor),

    FN(smooth_l1_loss, Tensor, Tensor, double), FN(gaussian_nll_loss, Tensor, Tensor, Tensor),
    BINARY(poisson_nll_loss), BINARY(binary_cross_entropy), BINARY(nll_loss), BINARY(soft_margin_loss),
    BINARY(multi_margin_loss), BINARY(multilabel_margin_loss), BINARY(multilabel_soft_margin_loss),
    FN(hinge_embedding_loss, Tensor, Tensor, double), FN(margin_ranking_loss, Tensor, Tensor, Tensor, double),
    FN(cosine_embedding_loss, Tensor, Tensor, Tensor, double), FN(triplet_margin_loss, Tensor, Tensor, Tensor),
    FN(ctc_loss, Tensor, Tensor, Tensor, Tensor),

    {"interpolate",
     [](Arguments& a) {
       return call<Image, Dims, double, int64_t, bool, bool>(
           a,
           [](const Image& x, const Dims& size, double scale, int64_t mode, bool align, bool antialias) {
             InterpolateOptions o{.mode = ResizeMode(uint64_t(mode) % 5), .align_corners = align, .antialias = antialias};
             if (size.empty()) o.scale = {std::min(scale, 20.0)};
             for (int64_t s : size) o.size.push_back(s % 64);
             return interpolate(x, o);
           });
     }},
    {"grid_sample",
     [](Arguments& a) {
       return call<Image, Tensor, int64_t, int64_t, bool>(
           a,
           [](const Image& x, const Tensor& grid, int64_t mode, int64_t padding, bool align) {
             return grid_sample(x, grid,
                                {.mode = SampleMode(uint64_t(mode) % 3),
                                 .padding = SamplePadding(uint64_t(padding) % 3),
                                 .align_corners = align});
           });
     }},
    {"affine_grid",
     [](Arguments& a) {
       return call<Tensor, int64_t, int64_t, bool>(
           a, [](const Tensor& t, int64_t h, int64_t w, bool align) { return affine_grid(t, {h % 64, w % 64}, align); });
     }},
    FN(pixel_shuffle, Image, int64_t, Layout), FN(pixel_unshuffle, Image, int64_t, Layout),
    FN(channel_shuffle, Image, int64_t, int64_t), FN(lp_pool, Image, Dims, double, PoolOptions),
    FN(max_pool_with_indices, Image, Dims, PoolOptions), FN(max_unpool, Image, Tensor, Dims),
    FN(fractional_max_pool, Image, Dims, Dims),
    {"unfold",
     [](Arguments& a) {
       return call<Image, Dims, PoolOptions, Dims>(
           a,
           [](const Image& x, const Dims& window, const PoolOptions& o, const Dims& dilation) {
             return unfold(x, window, {.strides = o.strides, .padding = o.padding, .dilation = dilation, .layout = o.layout});
           });
     }},
    {"fold",
     [](Arguments& a) {
       return call<Tensor, Dims, Dims, PoolOptions>(
           a,
           [](const Tensor& x, const Dims& size, const Dims& window, const PoolOptions& o) {
             return fold(x, size, window, {.strides = o.strides, .padding = o.padding, .layout = o.layout});
           });
     }},

    {"conv of an image",
     [](Arguments& a) {
       return call<Image, ConvOptions>(a, [](const Image& i, const ConvOptions& o) { return conv(i.x, i.w, o); });
     }},
    {"conv_transpose of an image",
     [](Arguments& a) {
       return call<Image, ConvTransposeOptions>(
           a, [](const Image& i, const ConvTransposeOptions& o) { return conv_transpose(i.x, i.w, o); });
     }},
    FN(max_pool, Image, Dims, PoolOptions), FN(avg_pool, Image, Dims, PoolOptions),
    FN(adaptive_avg_pool, Image, Dims, Layout), FN(space_to_depth, Image, int64_t), FN(depth_to_space, Image, int64_t),
    FN(conv, Tensor, Tensor, ConvOptions), FN(conv1d, Tensor, Tensor, ConvOptions),
    FN(conv2d, Tensor, Tensor, ConvOptions), FN(conv3d, Tensor, Tensor, ConvOptions),
    FN(depthwise_conv, Tensor, Tensor, ConvOptions), FN(conv_transpose, Tensor, Tensor, ConvTransposeOptions),
    FN(conv_grad_input, Tensor, Tensor, ConvParams), FN(conv_grad_weight, Tensor, Tensor, ConvParams),
    FN(max_pool, Tensor, Dims, PoolOptions), FN(avg_pool, Tensor, Dims, PoolOptions),
    FN(global_max_pool, Tensor, Layout, bool), FN(global_avg_pool, Tensor, Layout, bool),
    FN(adaptive_max_pool, Tensor, Dims, Layout), FN(adaptive_avg_pool, Tensor, Dims, Layout),
    FN(attention, Tensor, Tensor, Tensor, AttentionOptions), FN(self_attention, Tensor, SelfAttentionOptions),
    {"rotary",
     [](Arguments& a) {
       return call<Tensor, Tensor, double, MaybeInt, bool>(
           a, [](const Tensor& x, const Tensor& at, double base, MaybeInt size, bool pairs) {
             return rotary(x, at, {.base = base, .size = size, .interleaved = pairs});
           });
     }},
    {"alibi_bias",
     [](Arguments& a) {
       return call<int64_t, int64_t>(
           a, [](int64_t heads, int64_t keys) { return alibi_bias(heads % 99, keys % 99); });
     }},
    FN(relative_buckets, Tensor, int64_t, int64_t, bool),
    {"sinusoids",
     [](Arguments& a) {
       return call<Tensor, int64_t, double, bool, DType>(
           a, [](const Tensor& at, int64_t width, double base, bool pairs, DType dtype) {
             return sinusoids(at, width % 99, {.base = base, .interleaved = pairs, .dtype = dtype});
           });
     }},
    {"bounded_relu",
     [](Arguments& a) {
       return call<Tensor, double, double, double>(
           a, [](const Tensor& x, double most, double slope, double threshold) {
             return bounded_relu(x, {.max_value = most, .negative_slope = slope, .threshold = threshold});
           });
     }},
    FN(scaled_softplus, Tensor, double),
    {"reduce_loss",
     [](Arguments& a) {
       return call<Tensor, int64_t, Tensor>(a, [](const Tensor& x, int64_t how, const Tensor& weights) {
         return reduce_loss(x, Reduction(uint64_t(how) % 3), weights);
       });
     }},
    {"cross_entropy",
     [](Arguments& a) {
       return call<Tensor, Tensor, Tensor, int64_t, double>(
           a, [](const Tensor& x, const Tensor& labels, const Tensor& weights, int64_t ignored, double smoothing) {
             return cross_entropy(x, labels, {.weights = weights, .ignored = ignored, .smoothing = smoothing});
           });
     }},
    {"sigmoid_focal_loss",
     [](Arguments& a) {
       return call<Tensor, Tensor, double>(a, [](const Tensor& x, const Tensor& labels, double gamma) {
         return sigmoid_focal_loss(x, labels, {.gamma = gamma, .alpha = 0.25});
       });
     }},
    {"softmax_focal_loss",
     [](Arguments& a) {
       return call<Tensor, Tensor, double>(a, [](const Tensor& x, const Tensor& labels, double gamma) {
         return softmax_focal_loss(x, labels, {.gamma = gamma});
       });
     }},
    {"dice_loss",
     [](Arguments& a) {
       return call<Tensor, Tensor, Axes, double>(a, [](const Tensor& x, const Tensor& y, const Axes& axes, double smooth) {
         return dice_loss(x, y, {.axis = axes, .smooth = smooth});
       });
     }},
    {"tversky_loss",
     [](Arguments& a) {
       return call<Tensor, Tensor, double, double, Axes>(
           a, [](const Tensor& x, const Tensor& y, double alpha, double beta, const Axes& axes) {
             return tversky_loss(x, y, alpha, beta, {.axis = axes});
           });
     }},
    BINARY(squared_hinge_loss), BINARY(categorical_hinge_loss), BINARY(log_cosh_loss),
    FN(quantile_loss, Tensor, Tensor, double), BINARY(percentage_error), BINARY(squared_log_error),
    FN(cosine_distance, Tensor, Tensor, int64_t), FN(contrastive_loss, Tensor, Tensor, double),
    FN(info_nce_loss, Tensor, Tensor, double), FN(nt_xent_loss, Tensor, Tensor, double), BINARY(kl_divergence_of_logs),
    BINARY(symmetric_kl_divergence),

    FN(random::bits, Shape, random::RandomOptions), FN(random::uniform, Shape, random::UniformOptions),
    FN(random::normal, Shape, random::NormalOptions), FN(random::truncated_normal, Shape, random::TruncatedNormalOptions),
    FN(random::randint, int64_t, int64_t, Shape, random::RandomOptions),
    FN(random::bernoulli, Tensor, Shape, random::RandomOptions), FN(random::exponential, Shape, random::RandomOptions),
    FN(random::cauchy, Shape, random::RandomOptions), FN(random::logistic, Shape, random::RandomOptions), FN(random::rayleigh, Shape, random::RandomOptions), FN(random::weibull, Tensor, Shape, random::RandomOptions), FN(random::pareto, Tensor, Shape, random::RandomOptions), FN(random::gamma, Tensor, Shape, random::RandomOptions), FN(random::log_gamma, Tensor, Shape, random::RandomOptions), FN(random::beta, Tensor, Tensor, Shape, random::RandomOptions), FN(random::dirichlet, Tensor, Shape, random::RandomOptions), FN(random::chisquare, Tensor, Shape, random::RandomOptions), FN(random::student_t, Tensor, Shape, random::RandomOptions), FN(random::multivariate_normal, Tensor, Tensor, Shape, random::RandomOptions), FN(random::poisson, Tensor, Shape, random::RandomOptions), FN(random::binomial, Tensor, Tensor, Shape, random::RandomOptions), FN(random::geometric, Tensor, Shape, random::RandomOptions), FN(random::multinomial, Tensor, Tensor, Shape, random::RandomOptions),
    FN(random::gumbel, Shape, random::RandomOptions), FN(random::laplace, Shape, random::RandomOptions),
    FN(random::categorical, Tensor, Shape, random::RandomOptions), FN(random::permutation, int64_t, random::RandomOptions),
    FN(random::shuffle, Tensor, int64_t, random::RandomOptions), FN(random::choice, Tensor, Shape, random::ChoiceOptions),
    {"Key::split", [](Arguments& a) { return call<Key, int64_t>(a, [](const Key& k, int64_t n) { return k.split(n); }); }},
    {"Key::fold_in",
     [](Arguments& a) { return call<Key, Tensor>(a, [](const Key& k, const Tensor& t) { return k.fold_in(t); }); }},

    {"Tensor members",
     [](Arguments& a) {
       return call<Tensor, int, DType, Device>(
           a,
           [](const Tensor& t, int axis, DType dtype, Device device) {
             static_cast<void>(t.dim(axis));
             static_cast<void>(t.item<double>());
             return t.T().contiguous().astype(dtype).to(device);
           });
     }},
    {"data()", [](Arguments& a) {
       return call<Tensor>(a, [](const Tensor& t) { return tensor(double(t.data<float>().size())); });
     }},
    {"Variable::assign",
     [](Arguments& a) {
       return call<Variable, Tensor, int>(
           a,
           [](Variable v, const Tensor& t, int how) {
             how == 0 ? v.assign(t) : how > 0 ? v.assign_add(t) : v.assign_sub(t);
             return v.value();
           });
     }},
    FN(sgd_step, Variable, Tensor, double, double), FN(scatter_rows, Variable, Tensor, Tensor), FN(sparse_step, Variable, Tensor, Tensor, double),
    {"Dense",
     [](Arguments& a) {
       return call<int64_t, int64_t, Tensor>(
           a, [](int64_t in, int64_t out, const Tensor& t) { return nn::Dense(in, out)(t, nn::Mode::training); });
     }},
    {"Conv2D",
     [](Arguments& a) {
       return call<int64_t, int64_t, Dims, Dims, Tensor>(
           a, [](int64_t in, int64_t out, const Dims& window, const Dims& strides,
                 const Tensor& t) { return nn::Conv2D(in, out, window, {.strides = strides})(t); });
     }},
    {"Embedding",
     [](Arguments& a) {
       return call<int64_t, int64_t, Tensor>(
           a, [](int64_t count, int64_t size, const Tensor& t) { return nn::Embedding(count, size)(t); });
     }},
    {"LayerNorm", [](Arguments& a) {
       return call<Shape, Tensor>(a, [](const Shape& s, const Tensor& t) { return nn::LayerNorm(s)(t); });
     }},
    {"BatchNorm",
     [](Arguments& a) {
       return call<int64_t, Tensor, nn::Mode>(
           a, [](int64_t n, const Tensor& t, nn::Mode mode) { return nn::BatchNorm(n)(t, mode); });
     }},
    {"MultiHeadAttention",
     [](Arguments& a) {
       return call<int64_t, int64_t, Tensor>(
           a, [](int64_t width, int64_t heads, const Tensor& t) { return nn::MultiHeadAttention(width, heads)(t); });
     }},
    FN(nn::glorot_uniform, Shape), FN(nn::he_normal, Shape), FN(nn::lecun_normal, Shape),
};

}  // namespace fuzz
