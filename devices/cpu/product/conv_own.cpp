// Rill's own convolution: a product of matrices whose left rows are patches of the input, read in place through tables
// of pointers; padding is a line of zeros. See conv_tiles.h for when it is used.
//
// Activations in another order are copied into NHWC first, and weights are packed for the tiles. A convolution and its
// gradient by the input are the same sum (sum_patches): the latter runs once for each remainder of a pixel's position
// divided by the stride, since the pixels with one remainder use the same taps of the kernel. The gradient by the
// weights sums over pixels (WeightSums). conv_rows.cpp computes results with few channels. Start at conv_own().
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/product/conv_walk.h"

namespace rill::cpu {
namespace {

constexpr int64_t block_k = gemm_block_k, block_pixels = 96;
constexpr int64_t unit_rows = 12;  // rows of a weight gradient: a multiple of what the tiles compute at once

// Copies a row into a strip, and fills the rest with zeros.
template <class T>
void pack_row(const T* from, const Strip& s, T* to) {
  std::memcpy(to, from, size_t(s.columns) * sizeof(T));
  std::fill(to + s.columns, to + s.width, T(0));
}

// --- The convolution, and its gradient by the input ------------------------------------------------------------------

template <class T>
class PatchSums {
 public:
  PatchSums(const Walk& walk, const Groups& groups, const T* from, const Weights<T>& weights, const T* zeros, T* to)
      : walk_(walk),
        groups_(groups),
        from_(from),
        zeros_(zeros),
        to_(to),
        taps_(walk.taps(weights.strides)),
        blocks_(blocks_of(int64_t(taps_.size()), groups.from)),
        strips_(strips_of<T>(groups.to)),
        packed_(int64_t(taps_.size()) * groups.from * groups.count * strips_.width) {
    pack_weights(weights);
    skips_padding_ = walk.is_mostly_padding() ||
                     !all_finite(packed_.data, int64_t(taps_.size()) * groups.from * groups.count * strips_.width);
  }

  void run() const {
    const int64_t pixels = walk_.pixels(), down = (pixels + block_pixels - 1) / block_pixels;
    const int64_t columns = groups_.count * int64_t(strips_.each.size());
    // Few pixels: threads share each block of them, and each computes a range of columns.
    const int64_t across = std::min(columns, std::max<int64_t>(1, 4 * num_threads() / down));
    const int64_t work = block_pixels * groups_.count * strips_.width * groups_.from * int64_t(taps_.size()) / across;
    parallel_for(down * across, 1 + worth_a_thread / work, [&](int64_t begin, int64_t end) {
      Room<const T*> table(most_taps() * block_pixels);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i / across * block_pixels, part = i % across;
        const int64_t n = std::min(block_pixels, pixels - first), from = columns * part / across,
                      to = columns * (part + 1) / across;
        if (skips_padding_) block_without_padding(first, n, from, to);
        else block(first, n, from, to, table.data);
      }
    });
  }

 private:
  int64_t most_taps() const { return blocks_[0].taps; }

  T* packed(const Block& b, int64_t group, const Strip& s) const {
    return packed_.data + (b.before * groups_.count + b.k() * group) * strips_.width + b.k() * s.start;
  }

  void pack_weights(const Weights<T>& w) {
    const int64_t strips = int64_t(strips_.each.size()), n = int64_t(blocks_.size()) * groups_.count * strips;
    const int64_t each = std::min(block_k, blocks_[0].k()) * std::min(strips_.width, strips_.each[0].width);
    parallel_for(n, 1 + worth_a_thread / each, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Strip& s = strips_.each[size_t(i % strips)];
        const int64_t group = i / strips % groups_.count;
        const Block& b = blocks_[size_t(i / strips / groups_.count)];
        T* to = packed(b, group, s);
        const T* from = w.data + group * w.group + b.channel * w.from + s.start * w.to;
        if (w.to != 1 && s.columns < s.width) std::memset(to, 0, size_t(b.k() * s.width) * sizeof(T));
        for (int64_t t = b.tap; t < b.tap + b.taps; ++t, to += b.depth * s.width)
          pack_lines(from + taps_[size_t(t)].weight, w, b.depth, s, to);
      }
    });
  }

  // Packs `depth` lines. If the columns are strided, eight lines at a time share the cache lines that are read.
  static void pack_lines(const T* from, const Weights<T>& w, int64_t depth, const Strip& s, T* to) {
    constexpr int64_t together = 8;
    for (int64_t c = 0; c < depth; c += together) {
      const int64_t n = std::min(together, depth - c);
      for (int64_t j = 0; j < s.columns && w.to != 1; ++j)
        for (int64_t i = c; i < c + n; ++i) to[i * s.width + j] = from[i * w.from + j * w.to];
      for (int64_t i = c; i < c + n && w.to == 1; ++i) pack_row(from + i * w.from, s, to + i * s.width);
    }
  }

  // `columns` counts the strips of all groups.
  void block(int64_t first, int64_t n, int64_t columns_begin, int64_t columns_end, const T** table) const {
    Pixel pixels[block_pixels];
    T* to[block_pixels];
    walk_.fill(first, n, pixels);
    for (int64_t i = 0; i < n; ++i) to[i] = to_ + pixels[i].to;
    const int64_t strips = int64_t(strips_.each.size());
    const auto tile = tile_of<T>(groups_);
    for (const Block& b : blocks_) {
      if (b.channel == 0)
        for (int64_t t = 0; t < b.taps; ++t)
          walk_.meet(pixels, n, taps_[size_t(b.tap + t)], from_, zeros_, table + t * block_pixels, 1);
      for (int64_t j = columns_begin; j < columns_end; ++j) {
        const Strip& s = strips_.each[size_t(j % strips)];
        const int64_t group = j / strips;
        tile({table, block_pixels, groups_.offset(group, s) + b.channel, b.taps, b.depth, packed(b, group, s), to,
              group * groups_.to + s.start, n, s.columns, b.before > 0});
      }
    }
  }

  // The same, tap after tap, for only those pixels that the tap does not place in the padding.
  void block_without_padding(int64_t first, int64_t n, int64_t columns_begin, int64_t columns_end) const {
    Pixel pixels[block_pixels];
    const T *met[block_pixels], *from[block_pixels];
    T* to[block_pixels];
    walk_.fill(first, n, pixels);
    const int64_t strips = int64_t(strips_.each.size());
    for (int64_t j = columns_begin; j < columns_end; ++j) {
      const Strip& s = strips_.each[size_t(j % strips)];
      const int64_t group = j / strips, column = group * groups_.to + s.start;
      for (int64_t i = 0; i < n; ++i) std::fill_n(to_ + pixels[i].to + column, s.columns, T(0));
      for (const Block& b : blocks_)
        for (int64_t t = 0; t < b.taps; ++t) {
          walk_.meet(pixels, n, taps_[size_t(b.tap + t)], from_, zeros_, met, 1);
          int64_t rows = 0;
          for (int64_t i = 0; i < n; ++i)
            if (met[i] != zeros_) from[rows] = met[i], to[rows++] = to_ + pixels[i].to;
          tile_of<T>(groups_)({from, block_pixels, groups_.offset(group, s) + b.channel, 1, b.depth,
                               packed(b, group, s) + t * b.depth * s.width, to, column, rows, s.columns, true});
        }
    }
  }

  const Walk& walk_;
  const Groups& groups_;
  const T *from_, *zeros_;
  T* to_;
  bool skips_padding_;
  std::vector<Tap> taps_;
  std::vector<Block> blocks_;
  Strips strips_;
  Room<T> packed_;
};

// The convolution of `from`, or (to_input) the gradient by the input, whose cotangent is `from`.
template <class T>
void sum_patches(const Sliding& s, const T* from, const T* w, const SpaceStrides& strides, T* to, bool to_input) {
  const Groups groups(s.groups, to_input ? s.out_channels : s.in_channels, to_input ? s.in_channels : s.out_channels);
  const Weights<T> weights(w, strides, groups, to_input);
  const Room<T> none = zeros<T>(to_input ? s.out_channels : s.in_channels);
  Walk walk = walk_of(s, to_input);
  int64_t phases[3], size = s.batch * (to_input ? s.in_channels : s.out_channels);
  bool every = true;  // pixel is read by some tap
  std::vector<SpaceAxis> axes[3];
  for (int a = 0; a < 3; ++a) {
    size *= to_input ? s.in[a] : s.out[a];
    phases[a] = to_input ? std::min(s.stride[a], s.in[a]) : 1;
    for (int64_t i = 0; i < phases[a]; ++i) {
      SpaceAxis axis = to_input ? input_axis(s, a, i) : forward_axis(s, a);
      if (axis.taps.empty()) every = false;
      else axes[a].push_back(std::move(axis));
    }
  }
  if (!every) std::memset(to, 0, size_t(size) * sizeof(T));
  for (const SpaceAxis& i : axes[0])
    for (const SpaceAxis& j : axes[1])
      for (const SpaceAxis& k : axes[2]) {
        walk.axes[0] = i, walk.axes[1] = j, walk.axes[2] = k;
        if (!sum_rows<T>(walk, groups, from, weights, to))
          PatchSums<T>(walk, groups, from, weights, none.data, to).run();
      }
}

// --- The gradient by the weights -------------------------------------------------------------------------------------

// Sums over pixels, in blocks of block_k that are added in order. A unit is the rows of the result that share a table
// of pointers: some taps over all channels, or one tap over some channels. If there are few units, pieces of the pixels
// are summed separately and added at the end; their number depends on the shape, not on the number of threads.
template <class T>
class WeightSums {
 public:
  WeightSums(const Sliding& s, const T* x, const T* g, T* w)
      : s_(s),
        walk_(walk_of(s, false)),
        groups_(s.groups, s.in_channels, s.out_channels),
        x_(x),
        g_(g),
        w_(w),
        none_(zeros<T>(s.in_channels + unit_rows)),
        strips_(strips_of<T>(groups_.to)) {
    for (int a = 0; a < 3; ++a) walk_.axes[a] = forward_axis(s, a);
    SpaceStrides strides{0, s.out_channels, {}};
    int64_t size = strides.inner * groups_.from;
    for (int a = 2; a >= 0; size *= s.window[a], --a) strides.space[a] = size;
    taps_ = walk_.taps(strides);
    size_ = size;
    skips_padding_ = walk_.is_mostly_padding() || !all_finite(g, walk_.pixels() * s.out_channels);
    taps_in_unit_ = skips_padding_ ? 1 : std::max<int64_t>(1, unit_rows / groups_.from);
    parts_ = (groups_.from + unit_rows - 1) / unit_rows;
    units_ = (int64_t(taps_.size()) + taps_in_unit_ - 1) / taps_in_unit_ * parts_;
    blocks_ = (walk_.pixels() + block_k - 1) / block_k;
    constexpr int64_t enough_units = 64, most_pieces = 16, most_elements = 1 << 20;
    if (units_ * groups_.count * int64_t(strips_.each.size()) < enough_units)
      pieces_ = std::clamp<int64_t>(most_elements / size_, 1, std::min(most_pieces, blocks_));
    all_taps_ = int64_t(taps_.size()) == s.window[0] * s.window[1] * s.window[2];
  }

  void run() {
    Room<T> more((pieces_ - 1) * size_);
    for (int64_t p = 0; p < pieces_ && (skips_padding_ || !all_taps_); ++p)
      std::memset(piece(p, more), 0, size_t(size_) * sizeof(T));
    const int64_t pixels = walk_.pixels(), work = pixels / pieces_ * unit_rows * groups_.count * strips_.width;
    parallel_for(pieces_ * units_, 1 + worth_a_thread / std::max<int64_t>(1, work), [&](int64_t begin, int64_t end) {
      Room<T> packed(block_k * groups_.count * strips_.width);
      Room<const T*> table(block_k * unit_rows);
      while (begin < end) {
        const int64_t p = begin / units_, unit = begin % units_, last = std::min(units_, unit + end - begin);
        for (int64_t b = blocks_ * p / pieces_; b < blocks_ * (p + 1) / pieces_; ++b)
          block(b, unit, last, b > blocks_ * p / pieces_, piece(p, more), packed.data, table.data);
        begin += last - unit;
      }
    });
    if (pieces_ == 1) return;
    parallel_for(size_, worth_a_thread / pieces_, [&](int64_t begin, int64_t end) {
      for (int64_t p = 1; p < pieces_; ++p) {
        const T* from = piece(p, more);
        for (int64_t i = begin; i < end; ++i) w_[i] += from[i];
      }
    });
  }

 private:
  T* piece(int64_t p, const Room<T>& more) const { return p == 0 ? w_ : more.data + (p - 1) * size_; }

  void pack_pixels(const Pixel* pixels, int64_t n, T* to) const {
    for (int64_t group = 0; group < groups_.count; ++group)
      for (const Strip& s : strips_.each)
        for (int64_t i = 0; i < n; ++i, to += s.width)
          pack_row(g_ + pixels[i].to + group * groups_.to + s.start, s, to);
  }

  // Adds a block of pixels to the units from `begin` to `end`.
  void block(int64_t at, int64_t begin, int64_t end, bool add, T* w, T* packed, const T** table) const {
    Pixel pixels[block_k];
    const int64_t all = std::min(block_k, walk_.pixels() - at * block_k);
    int64_t n = all;
    walk_.fill(at * block_k, n, pixels);
    if (!skips_padding_) pack_pixels(pixels, n, packed);
    add |= skips_padding_;
    const auto tile = tile_of<T>(groups_);
    for (int64_t u = begin; u < end; ++u) {
      const int64_t tap = u / parts_ * taps_in_unit_, channel = u % parts_ * unit_rows;
      const int64_t taps = std::min(taps_in_unit_, int64_t(taps_.size()) - tap);
      const int64_t channels = std::min(unit_rows, groups_.from - channel), rows = taps * channels;
      if (u == begin || channel == 0) {  // the first unit of a tap
        if (skips_padding_) n = all, walk_.fill(at * block_k, n, pixels);
        fill(pixels, n, tap, taps, std::min(unit_rows, groups_.from), table);
        if (skips_padding_) pack_pixels(pixels, n = keep_met(pixels, n, table), packed);
      }
      T* to[unit_rows];
      for (int64_t r = 0; r < rows; ++r)
        to[r] = w + taps_[size_t(tap + r / channels)].weight + (channel + r % channels) * s_.out_channels;
      const T* b = packed;
      for (int64_t group = 0; group < groups_.count; ++group)
        for (const Strip& s : strips_.each) {
          tile({table, unit_rows, groups_.offset(group, s) + channel, n, 1, b, to, group * groups_.to + s.start, rows,
                s.columns, add});
          b += n * s.width;
        }
    }
  }

  // Keeps only the pixels that are not padding at a table's one tap; returns how many.
  int64_t keep_met(Pixel* pixels, int64_t n, const T** table) const {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (table[i * unit_rows] == none_.data) continue;
      pixels[kept] = pixels[i];
      std::copy_n(table + i * unit_rows, unit_rows, table + kept++ * unit_rows);
    }
    return kept;
  }

  void fill(const Pixel* pixels, int64_t n, int64_t tap, int64_t taps, int64_t channels, const T** table) const {
    for (int64_t t = 0; t < taps; ++t, table += channels) {
      walk_.meet(pixels, n, taps_[size_t(tap + t)], x_, none_.data, table, unit_rows);
      for (int64_t i = 0; i < n && channels > 1; ++i)
        for (int64_t c = 1; c < channels; ++c) table[i * unit_rows + c] = table[i * unit_rows] + c;
    }
  }

  const Sliding& s_;
  Walk walk_;
  Groups groups_;
  const T *x_, *g_;
  T* w_;
  Room<T> none_;
  Strips strips_;
  std::vector<Tap> taps_;
  int64_t size_, taps_in_unit_, parts_, units_, blocks_, pieces_ = 1;
  bool all_taps_, skips_padding_;
};

// --- Operands --------------------------------------------------------------------------------------------------------

// Axes in the order batch, space, channels, or (weights) space, in, out.
struct Order {
  Shape shape;
  Strides strides, dense;
};
Order in_order_of(const Tensor& t, std::initializer_list<size_t> first, size_t space, size_t n,
                  std::initializer_list<size_t> last) {
  Order o;
  const auto add = [&](size_t axis) { o.shape.push_back(t.shape()[axis]), o.strides.push_back(t.strides()[axis]); };
  for (size_t axis : first) add(axis);
  for (size_t i = 0; i < n; ++i) add(space + i);
  for (size_t axis : last) add(axis);
  o.dense = o.strides;
  int64_t step = 1;
  for (size_t i = o.shape.size(); i-- > 0; step *= o.shape[i]) o.dense[i] = step;
  return o;
}
Order activation_order(const Tensor& t, Layout l) {
  const size_t n = t.shape().size() - 2;
  return in_order_of(t, {0}, space_axis(l, 0), n, {l == Layout::nhwc ? n + 1 : 1});
}
Order weight_order(const Tensor& t, Layout l) {
  const size_t n = t.shape().size() - 2;
  if (l == Layout::nhwc) return in_order_of(t, {}, 0, n, {n, n + 1});
  return in_order_of(t, {}, 2, n, {1, 0});
}
// Whether the elements are dense in that order.
bool is_dense(const Order& o) {
  for (size_t i = 0; i < o.shape.size(); ++i)
    if (o.shape[i] > 1 && o.strides[i] != o.dense[i]) return false;
  return true;
}

// A tensor's elements, dense in an order: its own memory, or a copy.
template <class T>
class Dense {
 public:
  Dense(const Tensor& t, const Order& o) : order_(o), data_(reinterpret_cast<T*>(t.rep()->data)) {
    if (is_dense(o)) return;
    copy_ = allocate(Device(), size_t(t.size()) * sizeof(T));
    data_ = static_cast<T*>(copy_->data);
  }
  Dense& read(const Tensor& t) {
    if (copy_) strided_copy(t.dtype(), order_.shape, t.rep()->data, order_.strides, data_, order_.dense);
    return *this;
  }
  void write(Tensor& t) const {
    if (copy_) strided_copy(t.dtype(), order_.shape, data_, order_.dense, t.mutable_rep()->data, order_.strides);
  }
  T* data() const { return data_; }

 private:
  Order order_;
  T* data_;
  Ref<Buffer> copy_;
};

template <class T>
void run(const KernelArgs& args, ConvResult result) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  Tensor& out = args.output();
  const Tensor &a = args.input(0), &b = args.input(1);
  const Dense<T> first = Dense<T>(a, activation_order(a, p.layout)).read(a);
  if (result == ConvResult::weight) {
    const Dense<T> g = Dense<T>(b, activation_order(b, p.layout)).read(b), w(out, weight_order(out, p.layout));
    const Sliding s = sliding(p, a.shape(), out.shape());
    if (!sum_weight_rows<T>(s, first.data(), g.data(), w.data()))
      WeightSums<T>(s, first.data(), g.data(), w.data()).run();
    return w.write(out);
  }
  const bool to_input = result == ConvResult::input;
  const Dense<T> second(out, activation_order(out, p.layout));
  const Sliding s = sliding(p, to_input ? out.shape() : a.shape(), b.shape());
  sum_patches<T>(s, first.data(), args.in_data<T>(1), weight_strides(b, p.layout), second.data(), to_input);
  second.write(out);
}

}  // namespace

void conv_own(const KernelArgs& args, ConvResult result) {
  if (args.output().dtype() == DType::f64) run<double>(args, result);
  else run<float>(args, result);
}

}  // namespace rill::cpu
