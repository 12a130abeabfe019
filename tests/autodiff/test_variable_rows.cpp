// Rows of a Variable that are set, added to or subtracted from: what they become, what is refused, and what others see.
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/devices/registry.h"
#include "rill/rill.h"
#include "rill/trace/jit.h"

using namespace rill;

namespace {
Tensor ids_of(const std::vector<int64_t>& v) { return tensor(v); }
}  // namespace

TEST_CASE("rows of a Variable are set, added to and subtracted from") {
  const auto run = [](bool traced, auto&& change) {
    Variable v(arange(0, 8, 1, {f32, {}}).reshape({4, 2}), "v");
    auto compiled = function("change", [&](const Tensor& ids) { change(v, ids); });
    if (traced) compiled(ids_of({3, 0, -1}));
    else change(v, ids_of({3, 0, -1}));
    return v.value();
  };
  const Tensor rows = tensor({{10.f, 20.f}, {30.f, 40.f}, {50.f, 60.f}});
  for (bool traced : {false, true}) {
    CHECK(same_bits(run(traced, [&](Variable& v, const Tensor& i) { v.scatter_update(i, rows); }),
                    tensor({{30.f, 40.f}, {2.f, 3.f}, {4.f, 5.f}, {50.f, 60.f}})));
    CHECK(same_bits(run(traced, [&](Variable& v, const Tensor& i) { v.scatter_add(i, rows); }),
                    tensor({{30.f, 41.f}, {2.f, 3.f}, {4.f, 5.f}, {66.f, 87.f}})));
    CHECK(same_bits(run(traced, [&](Variable& v, const Tensor& i) { v.scatter_sub(i.astype(i32), rows); }),
                    tensor({{-30.f, -39.f}, {2.f, 3.f}, {4.f, 5.f}, {-54.f, -73.f}})));
    CHECK(same_bits(
        run(traced, [&](Variable& v, const Tensor& i) { v.scatter_update(i, 1).scatter_add(i, tensor({1.f, 2.f})); }),
        tensor({{2.f, 3.f}, {2.f, 3.f}, {4.f, 5.f}, {3.f, 5.f}})));
    CHECK(same_bits(run(traced, [&](Variable& v, const Tensor& i) { v.scatter_update(i, v(slice(0, 3))); }),
                    tensor({{2.f, 3.f}, {2.f, 3.f}, {4.f, 5.f}, {4.f, 5.f}})));
  }
  Variable counts(zeros({3}, {u8, {}}), "counts");
  counts.scatter_add(ids_of({2, 2, 0}), 100).scatter_sub(ids_of({0}), 101);
  CHECK(counts.value().to_vector<uint8_t>() == std::vector<uint8_t>{255, 0, 200});
  Variable flags(zeros({2}, {boolean, {}}), "flags");
  flags.scatter_add(ids_of({1}), true);
  CHECK(flags.value().to_vector<bool>() == std::vector<bool>{false, true});
  CHECK_THROWS_AS(flags.scatter_sub(ids_of({1}), true), Error);
  Variable words(tensor({"a", "b"}), "words");
  words.scatter_update(ids_of({1}), tensor({"c"}));
  CHECK(to_string(words.value()) == to_string(tensor({"a", "c"})));
  CHECK_THROWS_AS(words.scatter_add(ids_of({1}), tensor({"c"})), Error);
  CHECK_THROWS_AS(words.scatter_sub(ids_of({1}), tensor({"c"})), Error);
  CHECK_THROWS_AS(words.assign_add(tensor({"c"})), Error);
  CHECK_THROWS_AS(words.assign_sub(tensor({"c", "d"})), Error);
  CHECK(to_string(words.value()) == to_string(tensor({"a", "c"})));
}

TEST_CASE("an update of rows says what does not fit, and changes nothing") {
  Variable v(arange(0, 8, 1, {f32, {}}).reshape({4, 2}), "v"), number(tensor(1.f), "number");
  const Tensor before = v.value();
  const auto says = [](auto&& f) { return message_of(f); };
  const Tensor one = ids_of({1});
  std::string m = says([&] { v.scatter_add(ids_of({0, 4}), 1); });
  CHECK(has(m, "index 4 is out of bounds for axis 0 of size 4"));
  CHECK(has(m, "scatter_add"));
  CHECK(has(m, "test_variable_rows.cpp"));
  CHECK(has(says([&] { v.scatter_update(one, ones({3})); }), "does not broadcast to the shape [1,2]"));
  CHECK(has(says([&] { v.scatter_update(one, ones({2}, {f64, {}})); }), "dtypes differ"));
  CHECK(has(says([&] { v.scatter_update(ones({1}), 1); }), "indices must be integers"));
  CHECK(has(says([&] { v.scatter_update(Tensor(), 1); }), "the indices"));
  CHECK(has(says([&] { v.scatter_update(one, Tensor()); }), "the rows"));
  CHECK(has(says([&] { number.scatter_update(one, 1); }), "has no rows"));
  auto traced = function("traced", [&](const Tensor& ids) { v.scatter_add(ids, 1); });
  traced(ids_of({0, 1}));
  v.assign(before);
  CHECK(has(says([&] { traced(ids_of({0, 4})); }), "out of bounds"));
  jit::wait();
  CHECK(has(says([&] { traced(ids_of({0, 4})); }), "out of bounds"));
  CHECK(same_bits(v, before));
}

TEST_CASE("a value that was read keeps what it was; threads see whole updates") {
  Variable v(zeros({1000, 8}), "v");
  const Tensor ids = arange(0, 1000);
  const Tensor held = v.value();
  v.scatter_add(ids, 1);
  CHECK(same_bits(held, zeros({1000, 8})));
  auto traced = function("traced", [&](const Tensor& ids) { v.scatter_add(ids, 1); });
  const Tensor again = v.value();
  traced(ids);
  CHECK(same_bits(again, ones({1000, 8})));
  std::thread other([&] {
    for (int i = 0; i < 200; ++i) i % 2 ? traced(ids) : void(v.scatter_add(ids, 1));
  });
  bool whole = true;
  for (int i = 0; i < 200; ++i) {
    const Tensor now = v.value();
    whole = whole && array_equal(now, full_like(now, now(0, 0)));
  }
  other.join();
  CHECK(whole);
  CHECK(same_bits(v, full({1000, 8}, 202.f)));
}

TEST_CASE("rows are written in place where nobody holds the value") {
  constexpr int64_t count = 100000;
  Variable v(zeros({count, 4}), "v");
  const Tensor ids = ids_of({3, 7, -1}), rows = ones({3, 4});
  const auto memory = [&] { return static_cast<const void*>(v.value().rep()->data); };
  const auto check = [&](auto change) {
    auto traced = function("change", [&](const Tensor& ids) { change(ids); });
    for (int i = 0; i < 3; ++i) {
      if (i == 2) jit::wait();
      traced(ids);
    }
    const void* there = memory();
    reset_peak_memory("cpu:0");
    const size_t before = memory_stats("cpu:0").in_use;
    traced(ids);
    CHECK(memory() == there);
    CHECK(memory_stats("cpu:0").peak - before < count);
  };
  check([&](const Tensor& ids) { v.scatter_update(ids, rows); });
  check([&](const Tensor& ids) { v.scatter_add(ids, rows); });
  check([&](const Tensor& ids) { v.scatter_sub(ids, 2); });
  check([&](const Tensor&) { v.assign(v.value().at(5).set(1)); });
  check([&](const Tensor&) { v.assign(v.value().at(slice(0, 3)).add(rows)); });
  check([&](const Tensor& ids) { v.assign(v.value().at(ids).max(rows)); });
  const void* there = memory();
  v.scatter_add(ids, rows).scatter_update(ids, rows * 5).scatter_sub(ids, 1);
  CHECK(memory() == there);
  CHECK(same_bits(v(3), full({4}, 4.f)));
}
