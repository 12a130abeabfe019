// The stages that are compiled once for all types of elements: made by the functions here, which Dataset<T> calls with
// its knowledge of the type. Each function throws if an option is invalid.
#pragma once
#include <span>

#include "rill/data/element.h"
#include "rill/data/options.h"
#include "rill/data/stage.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill::data::stages {

// From an element: another one, or whether it is kept.
using Function = Callback<Item(Item&)>;
using Test = Callback<bool(Item&)>;
using Measure = Callback<int64_t(Item&)>;
// From several elements: one.
using Join = Callback<Item(std::span<Item>)>;

// --- Sources (sources.cpp; those that read files are in data/files) ---
StagePtr range(int64_t start, int64_t stop, int64_t step, const Where& where);
// `size` elements, each made by `at`, which several threads may call.
StagePtr indexed(std::string name, int64_t size, Callback<Item(int64_t)> at, const Where& where,
                 Callback<Item(const std::vector<int64_t>&)> stacked = {});
// Calls make() for each pass, and its result until that returns an empty item.
StagePtr generator(Callback<Callback<Item()>()> make, const Where& where);
// Each element of each pass is its own; `items` live as long as the stage.
StagePtr from_items(std::string name, std::vector<Item> items, const Where& where);

// --- One by one (map.cpp, simple.cpp, seen.cpp) ---
StagePtr map(StagePtr input, Function f, const MapOptions& o, const Where& where);
StagePtr filter(StagePtr input, Test keep, const Where& where);
StagePtr take_while(StagePtr input, Test goes_on, const Where& where);
// `save` and `restore`: of the carried state.
StagePtr scan(StagePtr input, Item initial, Callback<Item(Item& carried, Item& element)> f,
              Callback<void(Item&, StateWriter&)> save, Callback<void(Item&, StateReader&)> restore,
              const Where& where);
// `bytes`: the value, for comparing.
StagePtr unique(StagePtr input, Callback<void(Item&, StateWriter&)> bytes, const Where& where);
StagePtr rejection_resample(StagePtr input, Measure class_of, std::vector<double> target, const RejectionOptions& o,
                            const Where& where);
StagePtr take(StagePtr input, int64_t n, const Where& where);
StagePtr skip(StagePtr input, int64_t n, const Where& where);
StagePtr shard(StagePtr input, int64_t count, int64_t index, const Where& where);
// `cut`: of an element, the worker's part.
StagePtr shard_rows(StagePtr input, int64_t count, int64_t index, Function cut, const Where& where);
StagePtr ignore_errors(StagePtr input, const IgnoreErrorsOptions& o, const Where& where);

// --- Several as one, one as several (group.cpp, window.cpp) ---
// `stacks`: join() does what Cursor::next_stacked() does.
StagePtr batch(std::string name, StagePtr input, int64_t n, bool partial, Join join, bool stacks, const Where& where);
StagePtr unbatch(StagePtr input, Measure rows, Callback<Item(Item&, int64_t)> row, const Where& where);
StagePtr window(StagePtr input, int64_t n, const WindowOptions& o, Join join, const Where& where);
StagePtr flat_map(std::string name, StagePtr input, Callback<StagePtr(Item&)> f, const Where& where);
StagePtr group_by(std::string name, StagePtr input, Measure key, Callback<int64_t(int64_t key)> size, bool partial,
                  Join join, const Where& where);

// --- Of several datasets (several.cpp) ---
StagePtr zip(std::vector<StagePtr> inputs, Join join, const Where& where);
StagePtr concatenate(std::vector<StagePtr> inputs, const Where& where);
StagePtr interleave(StagePtr input, Callback<StagePtr(Item&)> f, const InterleaveOptions& o, const Where& where);
// From the input that each number of `choices` selects, until a selected one has ended.
StagePtr choose_from(std::vector<StagePtr> inputs, StagePtr choices, const Where& where);
StagePtr sample_from(std::vector<StagePtr> inputs, std::vector<double> weights, const SampleOptions& o,
                     const Where& where);

// --- Order and time (shuffle.cpp, repeat.cpp, prefetch.cpp, cache.cpp, kept_files.cpp) ---
StagePtr shuffle(StagePtr input, std::optional<int64_t> buffer, const ShuffleOptions& o, const Where& where);
StagePtr repeat(StagePtr input, std::optional<int64_t> times, const Where& where);
void check_depth(int64_t depth, const Where& where);
StagePtr prefetch(StagePtr input, const PrefetchOptions& o, const Where& where, int threads = 2);
StagePtr cache(StagePtr input, const CacheOptions& o, const detail::Codec& codec, const Where& where);
StagePtr snapshot(StagePtr input, const std::string& folder, const SnapshotOptions& o, const detail::Codec& codec,
                  const Where& where);
StagePtr with_options(StagePtr input, const PipelineOptions& o, const Where& where);

}  // namespace rill::data::stages

#pragma GCC visibility pop
