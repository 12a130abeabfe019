// See tape.h.
#include "rill/distribute/tape.h"

#include <fmt/format.h>

#include <bit>
#include <memory>

#include "rill/devices/driver.h"
#include "rill/distribute/engine/pending.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"

namespace rill::distribute {
namespace {

// Averages gradients in buckets, each of tensors of one dtype that are sent as one: from the last gradient to the
// first, the order in which a walk back finds them. The buckets depend only on that, and so the ranks' calls are the
// same, however far each rank's walk has come.
class Buckets {
 public:
  explicit Buckets(const TapeOptions& options) : options_(options) {}
  Buckets(const Buckets&) = delete;
  ~Buckets() { forget(); }

  // The next one; undefined ones are skipped.
  void add(size_t place, const Tensor& g) {
    if (!g.defined()) return;
    if (!takes(g)) send();
    bucket_.push_back({place, g}), bytes_ += int64_t(g.size()) * int64_t(size_of(g.dtype()));
    if (bytes_ >= options_.bucket_bytes) send();
  }
  bool some_travel() const { return !sent_.empty(); }
  // After a walk that has thrown.
  void forget() {
    for (Sent& s : sent_) s.begun.drop();
    bucket_.clear(), bytes_ = 0, sent_.clear();
  }
  // All were added.
  void finish(std::span<Tensor> gradients) {
    send();
    for (Sent& s : sent_) take_apart(s, gradients);
    sent_.clear();
  }

 private:
  struct Part {
    size_t place;
    Tensor gradient;
  };
  struct Sent {
    std::vector<Part> parts;
    Tensor mean;
    Pending begun;  // where mean is not known yet
  };

  bool takes(const Tensor& t) const { return bucket_.empty() || bucket_[0].gradient.dtype() == t.dtype(); }

  void send() {
    if (bucket_.empty()) return;
    std::vector<Tensor> flat;
    for (const Part& p : bucket_) flat.push_back(p.gradient.reshape({-1}));
    Tensor all = flat.size() == 1 ? bucket_[0].gradient : concat(flat);
    const DType d = all.dtype();
    if (options_.compress && (d == DType::f32 || d == DType::f64)) all = all.astype(*options_.compress);
    sent_.push_back({std::move(bucket_), {}, {}});
    bucket_.clear(), bytes_ = 0;
    begin(all, sent_.back());
  }
  void begin(const Tensor& all, Sent& sent) {
    // For other dtypes mean() throws, and says why.
    if (!is_differentiable(all.dtype())) sent.mean = mean(all, options_.group);
    else sent.begun = start_all_reduce(all, Reduce::mean, options_.group);
  }
  static void take_apart(Sent& sent, std::span<Tensor> gradients) {
    Tensor all = sent.mean.defined() ? sent.mean : sent.begun.wait();
    all = all.astype(sent.parts[0].gradient.dtype());
    Dim at = 0;
    for (const Part& p : sent.parts) {
      const Dim n = p.gradient.size();
      gradients[p.place] = sent.parts.size() == 1 ? all : all(slice(at, at + n)).reshape(p.gradient.shape());
      at += n;
    }
  }

  const TapeOptions& options_;
  std::vector<Part> bucket_;
  int64_t bytes_ = 0;
  std::vector<Sent> sent_;
};

Tensor joined(const Tensor& x, const Group& group) {
  Shape shape{Dim(-1)};
  for (size_t i = 1; i < x.shape().size(); ++i) shape.push_back(x.shape()[i]);
  return all_gather(x, group).reshape(shape);
}

// The gradients of a walk, some of which are complete before it ends.
class Averages {
 public:
  explicit Averages(const TapeOptions& options) : options_(options), buckets_(options_) {}

  void begin(size_t sources) {
    buckets_.forget();
    arrived_.assign(sources, Tensor()), next_ = sources;
  }
  void arrive(size_t source, const Tensor& gradient) {
    arrived_[source] = gradient;
    for (; next_ > 0 && arrived_[next_ - 1].defined(); --next_) buckets_.add(next_ - 1, arrived_[next_ - 1]);
    if (buckets_.some_travel()) advance_all(Where::current());
  }
  void end(std::span<Tensor> gradients, std::vector<IndexedSlices>* slices) {
    if (arrived_.size() != gradients.size()) begin(gradients.size());
    for (size_t i = 0; slices && !options_.rows && i < slices->size(); ++i)
      if (IndexedSlices& s = (*slices)[i]; s.indices.defined()) gradients[i] = s.to_dense(), s = {};
    for (; next_ > 0; --next_) buckets_.add(next_ - 1, gradients[next_ - 1]);
    buckets_.finish(gradients);
    arrived_.clear();
    for (size_t i = 0; slices && i < slices->size(); ++i)
      if ((*slices)[i].indices.defined()) join_rows((*slices)[i]);
  }

 private:
  void join_rows(IndexedSlices& s) const {
    s.values = joined(s.values, options_.group) / double(options_.group.size());
    s.indices = joined(s.indices, options_.group);
  }

  const TapeOptions options_;
  Buckets buckets_;
  std::vector<Tensor> arrived_;  // by source, of the current walk
  size_t next_ = 0;              // sources from here on are in buckets
};

void check(const TapeOptions& o, const Where& where) {
  constexpr std::string_view op = "distribute::GradientTape";
  if (o.bucket_bytes < 1) fail(op, fmt::format("bucket_bytes is {} and must be 1 or more", o.bucket_bytes), where);
  if (o.compress && !is_half(*o.compress))
    fail(op, fmt::format("compress is {} and must be f16 or bf16", name(*o.compress)), where);
}
// Each rank has a different part of a parameter, and their average would be meaningless.
void refuse_parts(std::span<const Source> sources, const Where& where) {
  for (const Source& s : sources)
    if (s.variable && is_part(*s.variable))
      fail("distribute::GradientTape",
           fmt::format("'{}' is a part of a parameter (distribute::Shards), whose gradient is a mean over the ranks "
                       "already. take a rill::GradientTape",
                       s.variable->name),
           where);
}
rill::TapeOptions plain(const TapeOptions& o, const Where& where) {
  check(o, where);
  return {.persistent = o.persistent, .watch_variables = o.watch_variables};
}

}  // namespace

GradientHook::What averaging(const TapeOptions& options, Where where) {
  check(options, where);
  if (options.group.size(where) == 1 && !options.compress) {  // what one rank has is the mean
    const auto keep = [rows = options.rows](std::span<const Source>, std::span<Tensor> gradients,
                                            std::vector<IndexedSlices>* slices) {
      for (size_t i = 0; !rows && slices && i < slices->size(); ++i)
        if (IndexedSlices& s = (*slices)[i]; s.indices.defined()) gradients[i] = s.to_dense(), s = {};
    };
    return {keep, [](size_t) { return GradientHook::Arrived(); }};
  }
  const auto walk = std::make_shared<Averages>(options);
  const auto change = [walk, where](std::span<const Source> sources, std::span<Tensor> gradients,
                                    std::vector<IndexedSlices>* slices) {
    refuse_parts(sources, where);
    walk->end(gradients, slices);
  };
  const auto begin = [walk](size_t sources) {
    walk->begin(sources);
    return GradientHook::Arrived([walk](size_t source, const Tensor& gradient) { walk->arrive(source, gradient); });
  };
  return {change, begin};
}

GradientTape::GradientTape(const TapeOptions& options, Where where)
    : rill::GradientTape(plain(options, where)), hook_(*this, averaging(options, where)) {}

std::vector<Tensor> mean_of_gradients(const std::vector<Tensor>& gradients, const TapeOptions& options, Where where) {
  CallerScope caller(where);
  check(options, where);
  std::vector<Tensor> out = gradients;
  Averages(options).end(out, nullptr);
  return out;
}

// --- The same bits on any number of ranks ----------------------------------------------------------------------------

namespace {

using detail::Parts;

Parts added(Parts a, const Parts& b) {
  a.loss = a.loss + b.loss;
  for (size_t i = 0; i < a.gradients.size(); ++i) a.gradients[i] = a.gradients[i] + b.gradients[i];
  return a;
}

// A tree over `parts` parts, whose leaves are computed from left to right.
Parts tree(int64_t first, int64_t parts, int64_t rows, const Callback<Parts(int64_t, int64_t)>& part) {
  if (parts == 1) return part(first * rows, (first + 1) * rows);
  const int64_t left = int64_t(std::bit_floor(uint64_t(parts - 1)));
  Parts sum = tree(first, left, rows, part);
  return added(std::move(sum), tree(first + left, parts - left, rows, part));
}

}  // namespace

Parts detail::sum_of_parts(int64_t parts, const Callback<Parts(int64_t, int64_t)>& part, int64_t rows,
                           const Group& group, const Where& where) {
  constexpr std::string_view op = "gradients_of_parts";
  const int64_t n = group.size(where);
  if (parts < 1 || !std::has_single_bit(uint64_t(parts)))
    fail(op, fmt::format("{} parts: it must be a power of two", parts), where);
  if (parts % n != 0)
    fail(op, fmt::format("{} parts do not go among {} ranks. give a power of two that is a multiple", parts, n), where);
  const int64_t mine = parts / n;
  if (rows % mine != 0)
    fail(op, fmt::format("this rank has {} rows for its {} parts, which must be of one length", rows, mine), where);
  Parts sum = tree(0, mine, rows / mine, part);
  std::vector<Tensor> all = std::move(sum.gradients);
  all.push_back(sum.loss);
  for (Tensor& t : all) t = all_reduce(t, Reduce::sum, group) / double(parts);
  sum.loss = std::move(all.back()), all.pop_back();
  sum.gradients = std::move(all);
  return sum;
}

}  // namespace rill::distribute
