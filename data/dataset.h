// Dataset<T>: a recipe for a sequence of C++ values with tensors inside. It is a small value that is cheap to copy; going
// through it runs the recipe, from the beginning each time:
//
//   auto ds = data::from_tensors(std::pair(images, labels)).shuffle(10000).map(augment, {.threads = 4}).batch(64).prefetch(2);
//   for (const auto& [x, y] : ds) step(x, y);
//
// The element's type T is known to the compiler: a Tensor, a number, a text, or a pair, tuple or struct of those
// (anything that rill/ops/tree.h walks). A mapped function takes an element, or its parts, and may return another type.
// Order and values are the same for any number of threads, and with a seed on every machine. An Iterator is one pass,
// whose position can be saved and restored in another process. The code that runs the recipe is in stage.h.
#pragma once
#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rill/data/element.h"
#include "rill/data/joiners.h"
#include "rill/data/pipeline.h"
#include "rill/data/stages/stages.h"
#include "rill/data/stats.h"

#pragma GCC visibility push(default)

namespace rill::data {

template <class T>
class Dataset;

namespace detail {
template <class T>
inline constexpr bool is_dataset = false;
template <class T>
inline constexpr bool is_dataset<Dataset<T>> = true;

// The compiler's message if a function does not take the elements.
#define RILL_DATA_TAKES(op)                                                                                \
  static_assert(detail::takes<F, T>(), op                                                                  \
                "(f): f does not take this dataset's elements, nor their parts (the members of a pair or " \
                "tuple, a struct's fields). look at the types of its parameters")

// An element of a pipeline and its type, back and forth.
template <class T>
stages::Join joining(std::shared_ptr<const Joiner> how) {
  return [how](std::span<Item> items) {
    std::vector<const T*> rows;
    rows.reserve(items.size());
    for (Item& item : items) rows.push_back(&item.as<T>());
    return Item::of(join<T>(std::span<const T* const>(rows), *how));
  };
}
}  // namespace detail

// One pass through a dataset. Not for several threads at once.
template <class T>
class Iterator {
 public:
  Iterator(StagePtr stage, const IteratorOptions& options, const Where& where)
      : pipeline_(std::move(stage), options, where) {}
  // The next element; nothing at the end, and ever after. Exceptions of the pipeline's functions are thrown once, under
  // the stage's name and line and with the element's number; the next call continues after that element.
  std::optional<T> next(Where where = Where::current()) {
    Item item = pipeline_.next(where);
    if (!item) return {};
    return std::move(item.as<T>());
  }
  // The position of the pass, in some hundred bytes: restore() continues with the same elements, also in another
  // process, and with other numbers of threads.
  std::string save(Where where = Where::current()) const { return pipeline_.save(where); }
  // Throws rill::Error, and changes nothing, where the state is another pipeline's or damaged.
  void restore(std::string_view state, Where where = Where::current()) { pipeline_.restore(state, where); }
  // What the stages have done so far, and which is slow. For an iterator({.stats = true}); else throws.
  PassStats stats(Where where = Where::current()) const { return pipeline_.stats(where); }
  // The state as a string variable "state", for a Checkpoint: written when the checkpoint is saved, and used after it
  // is restored, at the next call of next() or save().
  void name_variables(VariablePaths& paths) const { pipeline_.name_variables(paths); }

 private:
  Pipeline pipeline_;
};

template <class T>
class Dataset {
 public:
  using Element = T;
  explicit Dataset(StagePtr stage) : stage_(std::move(stage)) {}
  // Copies share the recipe; a move is a copy, so that what was moved from is whole.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;
  const StagePtr& stage() const& { return stage_; }
  StagePtr stage() const&& { return stage_; }

  // --- Of each element ---

  // f(element), or f(part, part, ...) for a pair, tuple or struct. With {.threads = n}, n elements are computed at
  // once, ahead of the consumer; f is then called by several threads.
  template <class F>
  auto map(F f, const MapOptions& options = {}, Where where = Where::current()) const {
    using R = detail::MappedBy<T, F>;
    RILL_DATA_TAKES("map");
    static_assert(!std::is_void_v<R>, "map(f): f returns nothing. to do something with each element, use for_each(f)");
    if constexpr (detail::takes<F, T>() && !std::is_void_v<R>)
      return Dataset<R>(stages::map(
          stage_, [f = std::move(f)](Item& x) mutable { return Item::of<R>(detail::call_with(f, x.as<T>())); }, options,
          where));
    else return *this;
  }
  // Options passed by position: none of these compiles, and each says how it is written.
  template <class F, std::integral N>
  Dataset map(F, N) const {
    static_assert(!sizeof(N), "on how many threads is an option: map(f, {.threads = 4})");
    return *this;
  }
  template <std::same_as<bool> B>
  Dataset batch(int64_t, B) const {
    static_assert(!sizeof(B), "whether the last batch may be smaller is an option: batch(32, {.partial = false})");
    return *this;
  }
  template <std::integral N>
  Dataset shuffle(int64_t, N) const {
    static_assert(!sizeof(N), "a seed is an option: shuffle(1000, {.seed = 42})");
    return *this;
  }
  // The elements for which f(element) is true: a bool, or a bool tensor of one element.
  template <class F>
  Dataset filter(F f, Where where = Where::current()) const {
    RILL_DATA_TAKES("filter");
    return Dataset(stages::filter(stage_, test(std::move(f)), where));
  }
  // Those before the first for which it is false.
  template <class F>
  Dataset take_while(F f, Where where = Where::current()) const {
    RILL_DATA_TAKES("take_while");
    return Dataset(stages::take_while(stage_, test(std::move(f)), where));
  }
  // f(state, element) returns the next state and the output: {state, result}. Begins with `initial`.
  template <class S, class F>
  auto scan(S initial, F f, Where where = Where::current()) const {
    constexpr bool fits = requires(S& s, T& x) {
      s = std::get<0>(f(s, x));
      std::get<1>(f(s, x));
    };
    static_assert(fits,
                  "scan(initial, f): f takes the state and an element, and gives the next state and a result, as "
                  "std::pair(state, result)");
    if constexpr (fits) {
      using R = std::tuple_element_t<1, std::remove_cvref_t<decltype(f(std::declval<S&>(), std::declval<T&>()))>>;
      return Dataset<R>(stages::scan(
          stage_, Item::of<S>(std::move(initial)),
          [f = std::move(f)](Item& state, Item& x) mutable {
            auto [next, result] = f(state.as<S>(), x.as<T>());
            state.as<S>() = std::move(next);
            return Item::of<R>(std::move(result));
          },
          [](Item& state, StateWriter& w) { detail::save_value(state.as<S>(), w); },
          [](Item& state, StateReader& r) { detail::read_value(state.as<S>(), r); }, where));
    } else {
      return *this;
    }
  }
  // The elements of the datasets that f returns for each element, one dataset after the other.
  template <class F>
  auto flat_map(F f, Where where = Where::current()) const {
    using D = detail::MappedBy<T, F>;
    RILL_DATA_TAKES("flat_map");
    static_assert(!detail::takes<F, T>() || detail::is_dataset<D>, "flat_map(f): f gives a Dataset for each element");
    if constexpr (detail::is_dataset<D>) return D(stages::flat_map("flat_map", stage_, recipe(std::move(f)), where));
    else return *this;
  }
  // As flat_map(), but several datasets are open at once and yield elements in turn: files that are read in parallel.
  template <class F>
  auto interleave(F f, const InterleaveOptions& options = {}, Where where = Where::current()) const {
    using D = detail::MappedBy<T, F>;
    RILL_DATA_TAKES("interleave");
    static_assert(!detail::takes<F, T>() || detail::is_dataset<D>, "interleave(f): f gives a Dataset for each element");
    if constexpr (detail::is_dataset<D>) return D(stages::interleave(stage_, recipe(std::move(f)), options, where));
    else return *this;
  }
  // f(element) of each, in order.
  template <class F>
  void for_each(F f, Where where = Where::current()) const {
    RILL_DATA_TAKES("for_each");
    detail::require_end(*stage_, "for_each", where);
    auto it = iterator({}, where);
    if constexpr (detail::takes<F, T>())
      while (std::optional<T> x = it.next(where)) detail::call_with(f, *x);
  }
  // f(... f(f(initial, first), second) ..., last).
  template <class S, class F>
  S reduce(S initial, F f, Where where = Where::current()) const {
    constexpr bool fits = requires(T& x) { initial = f(std::move(initial), x); };
    static_assert(fits,
                  "reduce(initial, f): f takes what was made so far and an element, and gives what comes next, of "
                  "the type of `initial`");
    detail::require_end(*stage_, "reduce", where);
    auto it = iterator({}, where);
    if constexpr (fits)
      while (std::optional<T> x = it.next(where)) initial = f(std::move(initial), *x);
    return initial;
  }
  // The elements whose value has not occurred before in the pass. Keeps 16 bytes of each; a pass that is restored reads
  // its input from the beginning.
  Dataset unique(Where where = Where::current()) const {
    return Dataset(stages::unique(stage_, [](Item& x, StateWriter& w) { detail::save_value(x.as<T>(), w); }, where));
  }
  // Drops elements at random so that class_of(element), an integer from 0 on, is distributed as `target` says: class i
  // in proportion to target[i].
  template <class F>
  Dataset rejection_resample(F class_of, const std::vector<double>& target, const RejectionOptions& options = {},
                             Where where = Where::current()) const {
    return Dataset(stages::rejection_resample(stage_, measure(std::move(class_of)), target, options, where));
  }
  // {0, first}, {1, second}, ..., from start on. A pass throws where the numbers would go beyond INT64_MAX.
  Dataset<std::pair<int64_t, T>> enumerate(int64_t start = 0, Where where = Where::current()) const {
    const auto join = [start, where](std::span<Item> both) {
      const int64_t number = both[0].as<int64_t>();
      if (number < start) fail("enumerate", "there is no number for an element behind INT64_MAX. begin lower", where);
      return Item::of(std::pair<int64_t, T>(number, std::move(both[1].as<T>())));
    };
    // Beyond INT64_MAX they go on from INT64_MIN, which no element may have.
    const auto number = [start](int64_t i) { return Item::of(int64_t(uint64_t(start) + uint64_t(i))); };
    return Dataset<std::pair<int64_t, T>>(
        stages::zip({stages::indexed("range", data::endless, number, where), stage_}, join, where));
  }
  // Drops elements for which an earlier stage throws, and logs that on stderr.
  Dataset ignore_errors(const IgnoreErrorsOptions& options = {}, Where where = Where::current()) const {
    return Dataset(stages::ignore_errors(stage_, options, where));
  }

  // --- Several as one, one as several ---

  // n elements as one, leaf by leaf: tensors are stacked along a new first axis, numbers and texts become vectors. Throws
  // where tensors differ in shape or dtype: padded_batch() pads them.
  Dataset<typename detail::BatchOf<T>::type> batch(int64_t n, const BatchOptions& options = {},
                                                   Where where = Where::current()) const {
    return Dataset<typename detail::BatchOf<T>::type>(
        stages::batch("batch", stage_, n, options.partial, detail::joining<T>(detail::stacking()), true, where));
  }
  // As batch(), but each tensor is padded at its ends to the largest sizes among the n.
  Dataset<typename detail::BatchOf<T>::type> padded_batch(int64_t n, const PaddedBatchOptions& options = {},
                                                          Where where = Where::current()) const {
    return Dataset<typename detail::BatchOf<T>::type>(stages::batch(
        "padded_batch", stage_, n, options.partial, detail::joining<T>(detail::padding(options, where)), false, where));
  }
  // Padded batches of elements of similar length: length(element) selects the bucket in which one waits until its batch
  // is full.
  template <class F>
  auto bucket_by_length(F length, const BucketOptions& options, Where where = Where::current()) const {
    detail::check_buckets(options, where);
    return Dataset<typename detail::BatchOf<T>::type>(stages::group_by(
        "bucket_by_length", stage_,
        [length = measure(std::move(length)), bounds = options.bounds](Item& x) {
          return detail::bucket_of(length(x), bounds);
        },
        [batches = options.batches](int64_t bucket) { return batches[batches.size() == 1 ? 0 : size_t(bucket)]; },
        options.partial,
        detail::joining<T>(detail::padding({.value = options.value, .multiple_of = options.multiple_of}, where)),
        where));
  }
  // Batches of `size` elements with one key(element), an integer; of size(key) elements.
  template <class F>
  auto group_by_window(F key, int64_t size, const BatchOptions& options = {}, Where where = Where::current()) const {
    if (size < 1) fail("data::group_by_window", "a window has 1 element or more", where);
    return group_by_window(std::move(key), [size](int64_t) { return size; }, options, where);
  }
  template <class F, class G>
    requires std::invocable<G&, int64_t>
  auto group_by_window(F key, G size, const BatchOptions& options = {}, Where where = Where::current()) const {
    return Dataset<typename detail::BatchOf<T>::type>(stages::group_by(
        "group_by_window", stage_, measure(std::move(key)),
        [size = std::move(size)](int64_t k) mutable { return int64_t(size(k)); }, options.partial,
        detail::joining<T>(detail::stacking()), where));
  }
  // Windows of n consecutive elements: {0, 1, 2}, {3, 4, 5}, ...; with {.shift = 1}, {1, 2, 3} is the second. map()
  // takes them as a vector: ds.window(3, {.shift = 1}).map([](const std::vector<Tensor>& w) { ... }).
  Dataset<std::vector<T>> window(int64_t n, const WindowOptions& options = {}, Where where = Where::current()) const {
    return Dataset<std::vector<T>>(stages::window(
        stage_, n, options,
        [](std::span<Item> items) {
          std::vector<T> all;
          all.reserve(items.size());
          for (Item& item : items) all.push_back(std::move(item.as<T>()));
          return Item::of(std::move(all));
        },
        where));
  }
  // As batch(), but a tensor's rows may differ in length: all values behind each other, and where each row begins
  // (rill/ops/ragged.h). A Tensor in the element becomes a Ragged, numbers and texts become tensors.
  Dataset<typename detail::RaggedOf<T>::type> ragged_batch(int64_t n, const BatchOptions& options = {},
                                                           Where where = Where::current()) const {
    return Dataset<typename detail::RaggedOf<T>::type>(stages::batch(
        "ragged_batch", stage_, n, options.partial,
        [](std::span<Item> items) {
          std::vector<const T*> rows;
          rows.reserve(items.size());
          for (Item& item : items) rows.push_back(&item.as<T>());
          return Item::of(detail::join_ragged<T>(std::span<const T* const>(rows)));
        },
        false, where));
  }
  // The rows of each element: its tensors cut along their first axes, which have one size.
  Dataset unbatch(Where where = Where::current()) const {
    return Dataset(stages::unbatch(
        stage_, [](Item& x) { return detail::rows_of(detail::tensors_of(x.as<T>()), "data::unbatch"); },
        [](Item& x, int64_t i) {
          std::vector<Tensor> rows = detail::tensors_of(x.as<T>());
          for (Tensor& t : rows) t = detail::row_of(t, i);
          return Item::of(rill::detail::refill(x.as<T>(), rows));
        },
        where));
  }
  // Batches of another size.
  auto rebatch(int64_t n, const BatchOptions& options = {}, Where where = Where::current()) const {
    return unbatch(where).batch(n, options, where);
  }

  // --- Order ---

  // In random order: of all elements if the source has random access (from_tensors, range, list_files, and map, take,
  // skip, shard and zip of them), whatever `buffer` is; else each is drawn from a buffer of so many, or of {.bytes =
  // n}.
  Dataset shuffle(int64_t buffer, const ShuffleOptions& options = {}, Where where = Where::current()) const {
    return Dataset(stages::shuffle(stage_, buffer, options, where));
  }
  Dataset shuffle(const ShuffleOptions& options = {}, Where where = Where::current()) const {
    return Dataset(stages::shuffle(stage_, {}, options, where));
  }
  // So many passes, one after the other; without an end where no number is given.
  Dataset repeat(std::optional<int64_t> times = {}, Where where = Where::current()) const {
    return Dataset(stages::repeat(stage_, times, where));
  }
  Dataset take(int64_t n, Where where = Where::current()) const { return Dataset(stages::take(stage_, n, where)); }
  Dataset skip(int64_t n, Where where = Where::current()) const { return Dataset(stages::skip(stage_, n, where)); }
  // Every count-th element, from number `index` on: a worker's part. With {.within_batch = true}, of each batch the rows
  // from index * n / count on, up to the next worker's: parts that differ by one row at most. Throws where a batch has
  // fewer rows than there are workers.
  Dataset shard(int64_t count, int64_t index, const ShardOptions& options = {}, Where where = Where::current()) const {
    if (!options.within_batch) return Dataset(stages::shard(stage_, count, index, where));
    const auto cut = [count, index](Item& x) {
      std::vector<Tensor> parts = detail::tensors_of(x.as<T>());
      detail::cut_rows(parts, count, index);
      return Item::of(rill::detail::refill(x.as<T>(), parts));
    };
    return Dataset(stages::shard_rows(stage_, count, index, cut, where));
  }
  // These, then the other's.
  Dataset concatenate(const Dataset& other, Where where = Where::current()) const {
    return Dataset(stages::concatenate({stage_, other.stage_}, where));
  }

  // --- Time ---

  // Keeps `depth` elements ready, made by another thread while the last one is used; without a number, as many as are
  // needed so that the consumer does not wait. With {.device = gpu(0)} their tensors are moved there.
  Dataset prefetch(int64_t depth, PrefetchOptions options = {}, Where where = Where::current()) const {
    stages::check_depth(depth, where);
    options.depth = depth;
    return prefetch(options, where);
  }
  Dataset prefetch(const PrefetchOptions& options = {}, Where where = Where::current()) const {
    const Dataset there = options.device ? on_device(*options.device, where) : *this;
    return Dataset(stages::prefetch(there.stage_, options, where));
  }
  // Keeps the elements of the first complete pass for all later ones: in memory, or with {.file = path} in a file.
  Dataset cache(const CacheOptions& options = {}, Where where = Where::current()) const {
    return Dataset(stages::cache(stage_, options, detail::codec<T>(), where));
  }
  // Stores elements in files of a folder when they are first computed, and then reads them instead of computing them,
  // also in a later program, which continues where one was stopped. If that computation changes, remove the folder.
  Dataset snapshot(const std::string& folder, const SnapshotOptions& options = {},
                   Where where = Where::current()) const {
    return Dataset(stages::snapshot(stage_, folder, options, detail::codec<T>(), where));
  }
  // Options for all stages before this one.
  Dataset with_options(const PipelineOptions& options, Where where = Where::current()) const {
    return Dataset(stages::with_options(stage_, options, where));
  }
  // f(*this): for transformations with a name of the user's own.
  template <class F>
  auto apply(F&& f) const {
    return f(*this);
  }

  // --- Going through it ---

  // A pass, whose state can be saved and restored; a range-based for makes one of its own.
  Iterator<T> iterator(const IteratorOptions& options = {}, Where where = Where::current()) const {
    return Iterator<T>(stage_, options, where);
  }
  // The number of elements, `endless` if there is no end; nothing if it is not known without a pass.
  std::optional<int64_t> size() const { return stage_->size(); }
  // The same by a pass, where size() does not know. Throws for one without an end.
  int64_t count(Where where = Where::current()) const {
    detail::require_end(*stage_, "count", where);
    auto it = iterator({}, where);
    int64_t n = 0;
    while (it.next(where)) ++n;
    return n;
  }
  // Throws if there are none.
  T first(Where where = Where::current()) const {
    std::optional<T> x = iterator({}, where).next(where);
    if (!x) fail("Dataset.first", "there are no elements", where);
    return *std::move(x);
  }
  // All of them.
  std::vector<T> collect(Where where = Where::current()) const {
    detail::require_end(*stage_, "collect", where);
    auto it = iterator({}, where);
    std::vector<T> all;
    while (std::optional<T> x = it.next(where)) all.push_back(*std::move(x));
    return all;
  }
  // All rows as one Table, for a dataset whose elements are Tables of one row: csv(files).table().
  template <class Row = T>
    requires requires(Row& r) {
      r.names;
      r.columns;
    }
  Row table(Where where = Where::current()) const {
    const std::vector<Row> parts = batch(4096, {}, where).collect(where);
    if (parts.size() < 2) return parts.empty() ? Row() : parts[0];
    Row whole{parts[0].names, {}};
    for (size_t i = 0; i < whole.names.size(); ++i) {
      std::vector<Tensor> column;
      for (const Row& part : parts) column.push_back(part.columns[i]);
      whole.columns.push_back(concat(column, 0));
    }
    return whole;
  }
  // The stages, a line each, the last first.
  std::string describe() const { return data::describe(*stage_); }
  friend std::string to_string(const Dataset& ds) { return ds.describe(); }

  // for (const T& x : dataset)
  struct End {};
  class Loop {
   public:
    Loop(const Dataset& ds, const Where& where) : where_(where), it_(ds.stage_, {}, where) { ++*this; }
    T& operator*() { return *now_; }
    T* operator->() { return &*now_; }
    Loop& operator++() {
      now_ = it_.next(where_);
      return *this;
    }
    friend bool operator==(const Loop& l, End) { return !l.now_; }

   private:
    Where where_;
    Iterator<T> it_;
    std::optional<T> now_;
  };
  Loop begin(Where where = Where::current()) const { return Loop(*this, where); }
  End end() const { return {}; }

 private:
  template <class F>
  static stages::Test test(F f) {
    constexpr bool fits = detail::Truth<detail::MappedBy<T, F>>;
    static_assert(fits || !detail::takes<F, T>(), "filter(f) and take_while(f): f gives a bool, or a tensor of one");
    if constexpr (fits)
      return [f = std::move(f)](Item& x) mutable {
        auto holds = detail::call_with(f, x.as<T>());
        if constexpr (std::is_same_v<decltype(holds), Tensor>) return holds.template item<bool>();
        else return bool(holds);
      };
    else return {};
  }
  template <class F>
  static stages::Measure measure(F f) {
    RILL_DATA_TAKES("bucket_by_length(f), group_by_window(f), rejection_resample");
    constexpr bool fits = detail::Integer<detail::MappedBy<T, F>>;
    static_assert(fits || !detail::takes<F, T>(), "a length, key or class is an integer, or a tensor of one");
    if constexpr (fits)
      return [f = std::move(f)](Item& x) mutable { return detail::integer_of(detail::call_with(f, x.as<T>())); };
    else return {};
  }
  template <class F>
  static Callback<StagePtr(Item&)> recipe(F f) {
    return [f = std::move(f)](Item& x) mutable { return detail::call_with(f, x.as<T>()).stage(); };
  }
  Dataset on_device(Device device, const Where& where) const {
    return map(
        [device](const T& x) {
          std::vector<Tensor> all = detail::tensors_of(x);
          for (Tensor& t : all)
            if (t.defined() && t.dtype() != DType::string) t = t.to(device);
          return rill::detail::refill(x, all);
        },
        {.seed = 0}, where);
  }
  StagePtr stage_;
};

namespace detail {
template <class T>
std::vector<StagePtr> stages_of(const std::vector<Dataset<T>>& datasets) {
  std::vector<StagePtr> all;
  for (const Dataset<T>& d : datasets) all.push_back(d.stage());
  return all;
}
}  // namespace detail

// {a, b} of each pair of elements, {a, b, c} of three, ..., until one of the datasets ends.
template <class A, class B>
Dataset<std::pair<A, B>> zip(const Dataset<A>& a, const Dataset<B>& b, Where where = Where::current()) {
  const auto join = [](std::span<Item> both) {
    return Item::of(std::pair<A, B>(std::move(both[0].as<A>()), std::move(both[1].as<B>())));
  };
  return Dataset<std::pair<A, B>>(stages::zip({a.stage(), b.stage()}, join, where));
}
template <class A, class B, class C, class... More>
Dataset<std::tuple<A, B, C, More...>> zip(const Dataset<A>& a, const Dataset<B>& b, const Dataset<C>& c,
                                          const Dataset<More>&... more) {
  using Row = std::tuple<A, B, C, More...>;
  const auto join = [](std::span<Item> all) {
    return [&]<size_t... k>(std::index_sequence<k...>) {
      return Item::of(Row(std::move(all[k].as<std::tuple_element_t<k, Row>>())...));
    }(std::make_index_sequence<std::tuple_size_v<Row>>());
  };
  return Dataset<Row>(stages::zip({a.stage(), b.stage(), c.stage(), more.stage()...}, join, Where()));
}
// The next element of each, as a vector.
template <class T>
Dataset<std::vector<T>> zip(const std::vector<Dataset<T>>& datasets, Where where = Where::current()) {
  const auto join = [](std::span<Item> all) {
    std::vector<T> row;
    row.reserve(all.size());
    for (Item& x : all) row.push_back(std::move(x.as<T>()));
    return Item::of(std::move(row));
  };
  if (datasets.empty()) fail("data::zip", "there are no datasets", where);
  return Dataset<std::vector<T>>(stages::zip(detail::stages_of(datasets), join, where));
}
// The elements of one dataset after those of the other.
template <class T>
Dataset<T> concatenate(const std::vector<Dataset<T>>& datasets, Where where = Where::current()) {
  if (datasets.empty()) fail("data::concatenate", "there are no datasets", where);
  return Dataset<T>(stages::concatenate(detail::stages_of(datasets), where));
}
// The elements of `datasets`, each time of the one that the next of `choices` names, until that has ended.
template <class T>
Dataset<T> choose_from(const std::vector<Dataset<T>>& datasets, const Dataset<int64_t>& choices,
                       Where where = Where::current()) {
  return Dataset<T>(stages::choose_from(detail::stages_of(datasets), choices.stage(), where));
}
// Each time from one at random, in proportion to the weights (by default equal).
template <class T>
Dataset<T> sample_from(const std::vector<Dataset<T>>& datasets, const std::vector<double>& weights = {},
                       const SampleOptions& options = {}, Where where = Where::current()) {
  return Dataset<T>(stages::sample_from(detail::stages_of(datasets), weights, options, where));
}

// The same of datasets in braces: sample_from({a, b}, {0.9, 0.1}).
template <class T>
Dataset<std::vector<T>> zip(std::initializer_list<Dataset<T>> datasets, Where where = Where::current()) {
  return zip(std::vector<Dataset<T>>(datasets), where);
}
template <class T>
Dataset<T> concatenate(std::initializer_list<Dataset<T>> datasets, Where where = Where::current()) {
  return concatenate(std::vector<Dataset<T>>(datasets), where);
}
template <class T>
Dataset<T> choose_from(std::initializer_list<Dataset<T>> datasets, const Dataset<int64_t>& choices,
                       Where where = Where::current()) {
  return choose_from(std::vector<Dataset<T>>(datasets), choices, where);
}
template <class T>
Dataset<T> sample_from(std::initializer_list<Dataset<T>> datasets, const std::vector<double>& weights = {},
                       const SampleOptions& options = {}, Where where = Where::current()) {
  return sample_from(std::vector<Dataset<T>>(datasets), weights, options, where);
}

#undef RILL_DATA_TAKES
}  // namespace rill::data

#pragma GCC visibility pop
