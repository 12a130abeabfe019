// Operators that permute elements, select them, or move channels into space.
#include <fmt/format.h>

#include <algorithm>

#include "rill/serialize/tensorflow/in/slices.h"

namespace rill::tensorflow_in {
namespace {

DType dtype_or(const Call& c, const char* name, DType otherwise) {
  return c.attribute(name) ? c.dtype(name) : otherwise;
}

// --- Order -----------------------------------------------------------------------------------------------------------

// The first version has bools for the axes.
Values reverse_rule(const Call& c) {
  const std::vector<double> flags = c.numbers(1);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < flags.size(); ++i)
    if (flags[i] != 0) axes.push_back(int64_t(i));
  return {axes.empty() ? c.x(0) : flip(c.x(0), Axes(axes))};
}
Values roll_rule(const Call& c) {
  Tensor x = c.x(0);
  const Dims by = c.dims(1), axes = c.dims(2);
  if (by.size() != axes.size()) c.reject("shift and axis have different lengths");
  for (size_t i = 0; i < by.size(); ++i) x = roll(x, Axes{int64_t(by[i])}, Axes{axis_of(c, axes[i], x.ndim())});
  return {x};
}
// Reverses the first elements of each row, as many as operand 1 says.
Values reverse_sequence_rule(const Call& c) {
  const Tensor x = c.x(0), lengths = c.x(1).astype(i64);
  const int64_t along = axis_of(c, c.integer("seq_dim", 0), x.ndim()),
                batch = axis_of(c, c.integer("batch_dim", 0), x.ndim());
  if (along == batch || lengths.ndim() != 1) c.reject("takes a length for each row of another axis");
  Shape rows(size_t(x.ndim()), 1), steps(size_t(x.ndim()), 1);
  rows[size_t(batch)] = x.dim(batch), steps[size_t(along)] = x.dim(along);
  const Tensor n = reshape(lengths, rows), i = iota(steps, along);
  return {take_along_axis(x, where(i < n, n - 1 - i, i), along)};
}
Values inverse_permutation_rule(const Call& c) { return {argsort(c.x()).astype(c.x().dtype())}; }
// Indices into the flattened tensor of these sizes to rows of indices along each axis.
Values unravel_rule(const Call& c) {
  const Tensor at = c.x(0);
  Tensor rest = at;
  const Dims sizes = c.dims(1);
  std::vector<Tensor> all;
  for (size_t i = sizes.size(); i-- > 0;) {
    const Tensor n = Tensor(sizes[i]).astype(at.dtype());
    all.insert(all.begin(), remainder(rest, n));
    rest = floor_divide(rest, n);
  }
  if (all.empty()) c.reject("has no sizes");
  return {stack(all)};
}
Values where_rule(const Call& c) { return {argwhere(c.known(0))}; }

// --- Diagonals of tensors with twice the axes ------------------------------------------------------------------------

Values diag_rule(const Call& c) {
  const Tensor x = c.x();
  Shape twice = x.shape();
  for (Dim d : x.shape()) twice.push_back(d);
  return {reshape(diagflat(x), twice)};
}
Values diag_part_rule(const Call& c) {
  const Tensor x = c.x();
  const int64_t half = x.ndim() / 2;
  if (half * 2 != x.ndim() || half == 0) c.reject("takes an even number of axes");
  Shape shape;
  Dim n = 1;
  for (int64_t i = 0; i < half; ++i) shape.push_back(x.dim(i)), n = n * x.dim(i);
  return {reshape(diagonal(reshape(x, {n, n})), shape)};
}

// --- Channels and space ----------------------------------------------------------------------------------------------

template <Tensor (*f)(const Tensor&, int64_t, Where)>
Values blocks_rule(const Call& c) {
  const bool first = c.text("data_format", "NHWC") == "NCHW";
  const Tensor x = c.x();
  if (x.ndim() != 4 || c.text("data_format", "NHWC") == "NCHW_VECT_C") c.reject("takes images as NHWC or NCHW");
  const int64_t block = c.integer("block_size", 0);
  if (block < 2 || block > 1 << 15) c.reject("an impossible block_size");
  const Tensor y = f(first ? moveaxis(x, 1, -1) : x, block, Where::current());
  return {first ? moveaxis(y, -1, 1) : y};
}
// The index of each letter of one layout in the other.
std::vector<int64_t> letter_indices(const Call& c) {
  const std::string from = c.text("src_format", "NHWC"), to = c.text("dst_format", "NCHW");
  std::vector<int64_t> all;
  for (char letter : to) {
    const size_t at = from.find(letter);
    if (at == std::string::npos || from.size() != to.size()) c.reject("the formats have different letters");
    all.push_back(int64_t(at));
  }
  return all;
}
Values format_axis_rule(const Call& c) {
  const std::vector<int64_t> from = letter_indices(c);
  std::vector<int64_t> to(from.size());
  for (size_t i = 0; i < from.size(); ++i) to[size_t(from[i])] = int64_t(i);
  const Tensor x = c.x().astype(i64), n = tensor(int64_t(from.size()));
  return {take(tensor(to, Shape{int64_t(to.size())}), where(x < 0, x + n, x), 0).astype(c.x().dtype())};
}
Values format_sizes_rule(const Call& c) {
  std::vector<int64_t> at = letter_indices(c);
  const Tensor x = c.x();
  if (x.ndim() < 1 || x.ndim() > 2) c.reject("takes a vector, or rows of pairs");
  if (int64_t(x.dim(0)) + 2 == int64_t(at.size())) {  // only the axes of space
    const std::string from = c.text("src_format", "NHWC");
    std::vector<int64_t> space;
    for (int64_t i : at)
      if (from[size_t(i)] != 'N' && from[size_t(i)] != 'C')
        space.push_back(i -
                        std::ranges::count_if(from.substr(0, size_t(i)), [](char l) { return l == 'N' || l == 'C'; }));
    at = space;
  }
  return {take(x, tensor(at, Shape{int64_t(at.size())}), 0)};
}

// --- Making and writing ----------------------------------------------------------------------------------------------

Values empty_rule(const Call& c) {
  const Dims d = c.dims(0);
  return {zeros(Shape(d.begin(), d.end()), dtype_or(c, "dtype", f32))};
}
Values offsets_rule(const Call& c) {
  const int64_t axis = int64_t(c.dim(0));
  Values out;
  Dim at = 0;
  for (size_t i = 1; i < c.count(); ++i) {
    const Dims shape = c.dims(i);
    Dims offset(shape.size(), Dim(0));
    const auto k = size_t(axis_of(c, axis, int64_t(shape.size())));
    offset[k] = at;
    at = at + shape[k];
    out.push_back(Value::sizes(offset, false, dtype_or(c, "shape_type", i32)));
  }
  return out;
}
// x with a part of it, as StridedSlice selects it, replaced.
Values update_slice_rule(const Call& c) {
  const Tensor x = c.x(0);
  Shape shape = x.shape();
  Dim n = 1;
  for (Dim d : shape) n = n * d;
  Call read(c.program, c.body, c.node);
  read.in = c.in;
  read.in.pop_back();
  read.in[0] = Value(reshape(iota({n}), shape));
  const Tensor places = as_tensor(find_rule("StridedSlice")(read).at(0), "its places");
  GatherAttrs first;
  first.axes = {0};
  const Tensor values = broadcast_to(c.x(4), places.shape());
  return {reshape(scatter(reshape(x, {n}), {reshape(places, {-1})}, reshape(values, {-1}), first, ScatterMode::set),
                  shape)};
}
Values subtract_rule(const Call& c) {
  Call add(c.program, c.body, c.node);
  add.in = {c.in.at(0), c.in.at(1), Value(-c.x(2))};
  return find_rule("TensorScatterAdd")(add);
}
Values first_rule(const Call& c) { return {c.in.at(0)}; }

}  // namespace

const RuleTable& order_rules() {
  static const RuleTable table = {
      {"Reverse", reverse_rule},
      {"Roll", roll_rule},
      {"ReverseSequence", reverse_sequence_rule},
      {"InvertPermutation", inverse_permutation_rule},
      {"UnravelIndex", unravel_rule},
      {"Where", where_rule},
      {"Diag", diag_rule},
      {"DiagPart", diag_part_rule},
      {"DepthToSpace", blocks_rule<depth_to_space>},
      {"SpaceToDepth", blocks_rule<space_to_depth>},
      {"DataFormatDimMap", format_axis_rule},
      {"DataFormatVecPermute", format_sizes_rule},
      {"Empty", empty_rule},
      {"ConcatOffset", offsets_rule},
      {"TensorStridedSliceUpdate", update_slice_rule},
      {"TensorScatterSub", subtract_rule},
      {"ScatterNdNonAliasingAdd", [](const Call& c) { return find_rule("TensorScatterAdd")(c); }},
      {"ParallelConcat", [](const Call& c) -> Values { return {concat(c.tensors(), 0)}; }},
      // Operators that return their operand.
      {"PlaceholderWithDefault", first_rule},
      {"GuaranteeConst", first_rule},
      {"DeepCopy", first_rule},
      {"Copy", first_rule},
      {"CheckNumericsV2", first_rule},
      {"DebugIdentityV2", first_rule},
      {"Print", first_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
