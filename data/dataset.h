// Dataset<T>: a recipe for a sequence of C++ values with tensors inside. It is a small value that is cheap to copy; going
// through it runs the recipe, from the beginning each time:
//
//   auto ds = data::from_tensors(std::pair(images, labels)).shuffle(10000).map(augment, {.threads = 4}).batch(64).prefetch(2);
//   for (const auto& [x, y] : ds) step(x, y);
//
// The element's type T is known to the compiler: a Tensor, a number, a text, a pair, tuple or struct of such (anything
// that rill/ops/tree.h walks). A mapped function takes an element, or its parts, and may give another type. Order and
// values are the same for any number of threads, and by seed on every machine. An Iterator is one pass, whose place can
// be saved and restored in another process. What runs the recipe stands in stage.h.
#pragma once
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

#pragma GCC visibility push(default)

namespace rill::data {

template <class T>
class Dataset;

namespace detail {
template <class T>
inline constexpr bool is_dataset = false;
template <class T>
inline constexpr bool is_dataset<Dataset<T>> = true;

template <class T, class F>
using MappedBy = std::remove_cvref_t<decltype(call_with(std::declval<F&>(), std::declval<T&>()))>;

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
  // The next element; nothing at the end, and ever after. What a function of the pipeline throws comes out of it once,
  // under the stage's name and line and with the element's number; the next call goes on behind that element.
  std::optional<T> next(Where where = Where::current()) {
    Item item = pipeline_.next(where);
    if (!item) return {};
    return std::move(item.as<T>());
  }
  // Where the pass stands, in some hundred bytes: the elements that were to come are those after restore(), also in
  // another process, and with other numbers of threads.
  std::string save(Where where = Where::current()) const { return pipeline_.save(where); }
  // Throws rill::Error, and changes nothing, where the state is another pipeline's or damaged.
  void restore(std::string_view state, Where where = Where::current()) { pipeline_.restore(state, where); }

 private:
  Pipeline pipeline_;
};

template <class T>
class Dataset {
 public:
  using Element = T;
  explicit Dataset(StagePtr stage) : stage_(std::move(stage)) {}
  const StagePtr& stage() const { return stage_; }

  // --- Of each element ---

  // f(element), or f(part, part, ...) of a pair, tuple or struct. With {.threads = n}, n elements are worked on at once,
  // ahead of who asks; f is then called by several threads.
  template <class F>
  auto map(F f, const MapOptions& options = {}, Where where = Where::current()) const {
    using R = detail::MappedBy<T, F>;
    static_assert(!std::is_void_v<R>,
                  "map(f): f gives nothing. for_each element, write a loop: for (auto& x : dataset)");
    return Dataset<R>(stages::map(
        stage_, [f = std::move(f)](Item& x) mutable { return Item::of<R>(detail::call_with(f, x.as<T>())); }, options,
        where));
  }
  // The elements for which keep(element) is true: a bool, or a bool tensor of one element.
  template <class F>
  Dataset filter(F keep, Where where = Where::current()) const {
    return Dataset(stages::filter(stage_, test(std::move(keep)), where));
  }
  // Those before the first for which it is false.
  template <class F>
  Dataset take_while(F goes_on, Where where = Where::current()) const {
    return Dataset(stages::take_while(stage_, test(std::move(goes_on)), where));
  }
  // f(state, element) gives the next state and what comes out: {state, result}. Begins with `initial`.
  template <class S, class F>
  auto scan(S initial, F f, Where where = Where::current()) const {
    using R = typename std::remove_cvref_t<decltype(f(std::declval<S&>(), std::declval<T&>()))>::second_type;
    return Dataset<R>(stages::scan(
        stage_, Item::of<S>(std::move(initial)),
        [f = std::move(f)](Item& state, Item& x) mutable {
          auto [next, result] = f(state.as<S>(), x.as<T>());
          state.as<S>() = std::move(next);
          return Item::of<R>(std::move(result));
        },
        [](Item& state, StateWriter& w) { detail::save_value(state.as<S>(), w); },
        [](Item& state, StateReader& r) { detail::read_value(state.as<S>(), r); }, where));
  }
  // The elements of the dataset that f gives for each element, one dataset after the other.
  template <class F>
  auto flat_map(F f, Where where = Where::current()) const {
    using D = detail::MappedBy<T, F>;
    static_assert(detail::is_dataset<D>, "flat_map(f) and interleave(f): f gives a Dataset for each element");
    return D(stages::flat_map("flat_map", stage_, recipe(std::move(f)), where));
  }
  // As flat_map(), but several datasets are open at once and give elements in turn: files that are read side by side.
  template <class F>
  auto interleave(F f, const InterleaveOptions& options = {}, Where where = Where::current()) const {
    using D = detail::MappedBy<T, F>;
    static_assert(detail::is_dataset<D>, "flat_map(f) and interleave(f): f gives a Dataset for each element");
    return D(stages::interleave(stage_, recipe(std::move(f)), options, where));
  }
  // {0, first}, {1, second}, ...
  Dataset<std::pair<int64_t, T>> enumerate(int64_t start = 0, Where where = Where::current()) const {
    const auto join = [](std::span<Item> both) {
      return Item::of(std::pair<int64_t, T>(both[0].as<int64_t>(), std::move(both[1].as<T>())));
    };
    return Dataset<std::pair<int64_t, T>>(
        stages::zip({stages::range(start, start < 0 ? start + INT64_MAX : INT64_MAX, 1, where), stage_}, join, where));
  }
  // Drops elements that throw on their way here, and says so on stderr.
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
  // Padded batches of elements of like length: length(element) says in which bucket one waits until its batch is full.
  template <class F>
  auto bucket_by_length(F length, const BucketOptions& options, Where where = Where::current()) const {
    detail::check_buckets(options, where);
    return Dataset<typename detail::BatchOf<T>::type>(stages::group_by(
        "bucket_by_length", stage_,
        [length = std::move(length), bounds = options.bounds](Item& x) mutable {
          return detail::bucket_of(int64_t(detail::call_with(length, x.as<T>())), bounds);
        },
        [batches = options.batches](int64_t bucket) { return batches[batches.size() == 1 ? 0 : size_t(bucket)]; },
        options.partial,
        detail::joining<T>(detail::padding({.value = options.value, .multiple_of = options.multiple_of}, where)),
        where));
  }
  // Batches of `size` elements with one key(element), an integer.
  template <class F>
  auto group_by_window(F key, int64_t size, const BatchOptions& options = {}, Where where = Where::current()) const {
    if (size < 1) fail("data::group_by_window", "a window has 1 element or more", where);
    return Dataset<typename detail::BatchOf<T>::type>(stages::group_by(
        "group_by_window", stage_,
        [key = std::move(key)](Item& x) mutable { return int64_t(detail::call_with(key, x.as<T>())); },
        [size](int64_t) { return size; }, options.partial, detail::joining<T>(detail::stacking()), where));
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

  // In random order: of all elements where the source has them at hand (from_tensors, range, list_files, and what map,
  // take, skip, shard and zip make of them), whatever `buffer` is; else each is drawn from a buffer of so many.
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
  // Every count-th element, from number `index` on: a worker's part.
  Dataset shard(int64_t count, int64_t index, Where where = Where::current()) const {
    return Dataset(stages::shard(stage_, count, index, where));
  }
  // These, then the other's.
  Dataset concatenate(const Dataset& other, Where where = Where::current()) const {
    return Dataset(stages::concatenate({stage_, other.stage_}, where));
  }

  // --- Time ---

  // Keeps `depth` elements ready, made by another thread while the last one is used.
  Dataset prefetch(int64_t depth, Where where = Where::current()) const {
    return Dataset(stages::prefetch(stage_, depth, where));
  }
  // Keeps the elements of the first whole pass in memory, for all later ones.
  Dataset cache(const CacheOptions& options = {}, Where where = Where::current()) const {
    return Dataset(stages::cache(stage_, options, where));
  }
  // f(*this): for transformations with a name of the user's own.
  template <class F>
  auto apply(F&& f) const {
    return f(*this);
  }

  // --- Going through it ---

  Iterator<T> iterator(const IteratorOptions& options = {}, Where where = Where::current()) const {
    return Iterator<T>(stage_, options, where);
  }
  // How many elements there are, `endless` of those without an end; nothing where only a pass tells.
  std::optional<int64_t> size() const { return stage_->size(); }
  // The same by a pass, where size() does not know. Throws for one without an end.
  int64_t count(Where where = Where::current()) const {
    detail::require_end(*stage_, "count", where);
    auto it = iterator({}, where);
    int64_t n = 0;
    while (it.next(where)) ++n;
    return n;
  }
  // Throws where there is none.
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
    return [f = std::move(f)](Item& x) mutable {
      auto holds = detail::call_with(f, x.as<T>());
      if constexpr (std::is_same_v<decltype(holds), Tensor>) return holds.template item<bool>();
      else return bool(holds);
    };
  }
  template <class F>
  static Callback<StagePtr(Item&)> recipe(F f) {
    return [f = std::move(f)](Item& x) mutable { return detail::call_with(f, x.as<T>()).stage(); };
  }
  StagePtr stage_;
};

// {a, b} of each pair of elements, until one of the datasets ends.
template <class A, class B>
Dataset<std::pair<A, B>> zip(const Dataset<A>& a, const Dataset<B>& b, Where where = Where::current()) {
  const auto join = [](std::span<Item> both) {
    return Item::of(std::pair<A, B>(std::move(both[0].as<A>()), std::move(both[1].as<B>())));
  };
  return Dataset<std::pair<A, B>>(stages::zip({a.stage(), b.stage()}, join, where));
}
template <class A, class B, class C>
Dataset<std::tuple<A, B, C>> zip(const Dataset<A>& a, const Dataset<B>& b, const Dataset<C>& c,
                                 Where where = Where::current()) {
  const auto join = [](std::span<Item> all) {
    return Item::of(
        std::tuple<A, B, C>(std::move(all[0].as<A>()), std::move(all[1].as<B>()), std::move(all[2].as<C>())));
  };
  return Dataset<std::tuple<A, B, C>>(stages::zip({a.stage(), b.stage(), c.stage()}, join, where));
}
// The elements of `datasets`, each time of the one that the next of `choices` names, until that has ended.
template <class T>
Dataset<T> choose_from(const std::vector<Dataset<T>>& datasets, const Dataset<int64_t>& choices,
                       Where where = Where::current()) {
  std::vector<StagePtr> all;
  for (const Dataset<T>& d : datasets) all.push_back(d.stage());
  return Dataset<T>(stages::choose_from(std::move(all), choices.stage(), where));
}
// Each time of one by chance, in proportion to the weights (equal where there are none).
template <class T>
Dataset<T> sample_from(const std::vector<Dataset<T>>& datasets, const std::vector<double>& weights = {},
                       const SampleOptions& options = {}, Where where = Where::current()) {
  std::vector<StagePtr> all;
  for (const Dataset<T>& d : datasets) all.push_back(d.stage());
  return Dataset<T>(stages::sample_from(std::move(all), weights, options, where));
}

}  // namespace rill::data

#pragma GCC visibility pop
