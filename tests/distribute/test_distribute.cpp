// Sessions of one rank, and what is found before any other rank is asked. Several ranks: test_distribute.py.
#include "rill/distribute.h"

#include "catch.h"
#include "messages.h"
#include "rill/data.h"
#include "rill/nn.h"
#include "rill/rill.h"

using namespace rill;
using distribute::Group;
using distribute::Reduce;

TEST_CASE("distribute: without a Session there is one rank") {
  CHECK(distribute::rank() == 0);
  CHECK(distribute::size() == 1);
  const Tensor x = tensor({1.f, 2.f});
  CHECK(array_equal(distribute::all_reduce(x), x));
  CHECK(distribute::all_gather(x).shape() == Shape{1, 2});
  distribute::barrier();
}

TEST_CASE("distribute: a Session alone, one at a time") {
  {
    distribute::Session session;
    CHECK(distribute::size() == 1);
    CHECK(has(message_of([] { distribute::Session another; }), "there is one already"));
    const Tensor x = tensor({1.f, 2.f});
    for (const Reduce r : {Reduce::sum, Reduce::mean, Reduce::max, Reduce::min, Reduce::product})
      CHECK(array_equal(distribute::all_reduce(x, r), x));
    CHECK(array_equal(distribute::rotate(x, 5), x));
    CHECK(array_equal(distribute::scatter(x.reshape({1, 2})), x));
    CHECK(distribute::is_same(x));
  }
  distribute::Session again;
  CHECK(has(message_of([] { distribute::Session bad({.timeout = 0}); }), "there is one already"));
}

TEST_CASE("distribute: a collective is an op in graphs, and runs where it gives nothing that is read") {
  const Tensor x = tensor({1.f, 2.f});
  auto f = function("f", [](const Tensor& v) {
    distribute::all_reduce(v);
    return v * 2.0;
  });
  CHECK(has(to_string(f.graph(spec(f32, {2}))), "all_reduce"));
  CHECK(array_equal(f(x), x * 2.0));
  auto loss = [](const Tensor& v) {
    return sum(square(recompute([](const Tensor& u) { return distribute::all_reduce(u) * u; })(v)));
  };
  CHECK(array_equal(grad(loss)(x), x * x * x * 4.0));
  CHECK(array_equal(function("g", [&](const Tensor& v) { return grad(loss)(v); })(x), x * x * x * 4.0));
}

TEST_CASE("distribute: what cannot be is refused, at the caller's line") {
  const Tensor x = tensor({1.f, 2.f});
  CHECK(has(message_of([&] { distribute::broadcast(x, 1); }), "test_distribute.cpp"));
  CHECK(has(message_of([&] { distribute::broadcast(x, 1); }), "the root is 1 and must be from 0 to 0"));
  CHECK(has(message_of([&] { distribute::all_reduce(tensor({1}), Reduce::mean); }), "convert with astype(f32)"));
  CHECK(has(message_of([&] { distribute::all_reduce(x.astype(c64), Reduce::max); }), "complex numbers have no order"));
  CHECK(has(message_of([&] { distribute::all_reduce(tensor({std::string("a")})); }), "string"));
  CHECK(has(message_of([&] { distribute::reduce_scatter(tensor(1.f)); }), "the first axis must be a multiple of 1"));
  CHECK(has(message_of([&] { distribute::scatter(x); }), "the first axis must be of size 1"));
  CHECK(has(message_of([&] { distribute::permute(x, {{0, 0}, {0, 0}}); }), "rank 0 sends twice"));
  CHECK(has(message_of([&] { distribute::send(x, 0); }), "is this rank itself"));
  CHECK(has(message_of([&] { Group({0, 0}); }), "stands there twice"));
  CHECK(has(message_of([&] { Group({3}); }), "there is no rank 3"));
  CHECK(has(message_of([&] { distribute::Mesh({{"data", 2}}); }), "and the job has 1"));
  distribute::Mesh mesh({{"data", 1}, {"model", 1}});
  CHECK(has(message_of([&] { distribute::shard(x, mesh, {"rows"}); }),
            "there is no axis 'rows'. there are: data, model"));
  CHECK(has(message_of([&] { distribute::shard(x, mesh, {none, "data"}); }), "the layout names 2 axes"));
  CHECK(has(message_of([&] { distribute::shard(ones({2, 2}), mesh, {"data", "data"}); }), "are both cut along 'data'"));
  CHECK(has(message_of([&] { distribute::GradientTape tape({.bucket_bytes = 0}); }), "bucket_bytes"));
}

TEST_CASE("distribute: a tape's gradients are those of a plain one on one rank") {
  Variable w(tensor({1.f, 2.f}), "w");
  distribute::GradientTape tape;
  const Tensor loss = sum(square(w));
  CHECK(array_equal(tape.gradient(loss, w), tensor({2.f, 4.f})));
  const auto [mean_loss, g] =
      distribute::gradients_of_parts(2, {w}, [&](const Tensor& x) { return mean(x * sum(square(w))); }, ones({4, 1}));
  CHECK(mean_loss.item<float>() == 5);
  CHECK(array_equal(g[0], tensor({2.f, 4.f})));
  CHECK(has(message_of([&] {
              distribute::gradients_of_parts(3, {w}, [&](const Tensor& x) { return sum(x * w); }, ones({3, 2}));
            }),
            "a power of two"));
}

TEST_CASE("data: shards of each batch") {
  const auto batches = data::range(10).batch(4);
  std::vector<int64_t> first, second;
  for (const Tensor& x : batches.take(2).shard(3, 2, {.within_batch = true}))
    for (const int64_t i : x.to_vector<int64_t>()) first.push_back(i);
  CHECK(first == std::vector<int64_t>{2, 3, 6, 7});
  for (const auto& [x, y] :
       data::range(4).map([](int64_t i) { return std::pair(i, -i); }).batch(4).shard(2, 1, {.within_batch = true}))
    for (const int64_t i : (x * 10 + y).to_vector<int64_t>()) second.push_back(i);
  CHECK(second == std::vector<int64_t>{18, 27});
  CHECK(batches.shard(2, 0, {.within_batch = true}).size() == 3);
  CHECK(has(message_of([&] { batches.shard(3, 0, {.within_batch = true}).collect(); }), "2 rows for 3 workers"));
  CHECK(batches.shard(3, 0, {}).size() == 1);
  CHECK(has(message_of([&] { batches.shard(2, 2, {.within_batch = true}); }), "the index is 2"));
  // The rows go with their batch where the order is another.
  CHECK(data::range(8).batch(4).shard(2, 1, {.within_batch = true}).shuffle({.seed = 3}).collect().size() == 2);
  auto it = data::range(8).batch(4).shard(2, 1, {.within_batch = true}).iterator();
  it.next();
  const std::string state = it.save();
  auto other = data::range(8).batch(4).shard(2, 1, {.within_batch = true}).iterator();
  other.restore(state);
  CHECK(array_equal(*other.next(), tensor({int64_t(6), int64_t(7)})));
}
