// Feature columns. Expected numbers are TensorFlow 2.21's (tf.feature_column, input_layer, sparse_cross) where a case
// says so: tests/oracle has no judge that knows tables of strings.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "catch.h"
#include "messages.h"
#include "rill/data.h"
#include "rill/nn/nn.h"
#include "rill/rill.h"

using namespace rill;
using namespace rill::data;
using namespace rill::data::features;

namespace {

using Numbers = std::vector<float>;
Numbers numbers(const Tensor& t) { return t.astype(f32).to_vector<float>(); }
// The ids of one column that gives them, by its indicator: -1 of a row without one.
std::vector<int64_t> ids_of(const Column& c, const Table& t) {
  const Tensor dense = Columns({c})(t);
  return where(max(dense, 1) > 0, argmax(dense, 1), int64_t(-1)).to_vector<int64_t>();
}
Tensor counting(const Shape& shape) { return reshape(arange(shape.numel()).astype(f32), shape); }

const Table& people() {
  static const Table t{{"age", "job", "n"},
                       {tensor({19.f, 34.f, 71.f}), tensor({"nurse", "smith", "cook"}), tensor({5, -1, 7})}};
  return t;
}

}  // namespace

TEST_CASE("the columns of the design") {
  const Columns columns({bucketized("age", {18, 30, 65}),
                         indicator(vocabulary("job", {"cook", "nurse"}, {.unknown = 1})),
                         embedding(hashed("job", 100), 4), crossed({bucketized("age", {30}), hashed("job", 10)}, 50)});
  const Tensor dense = columns(people());
  CHECK(dense.shape() == Shape{3, 4 + 3 + 4 + 50});
  CHECK(columns.widths() == std::vector<int64_t>{4, 3, 4, 50});
  CHECK(columns.variables().size() == 1);
  CHECK(columns.inputs() == std::vector<std::string>{"age", "job"});
  CHECK(numbers(dense(all, slice(0, 7))) == Numbers{0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0});
}

TEST_CASE("hashes, vocabularies and crosses are TensorFlow's") {
  CHECK(ids_of(hashed("job", 100), people()) == std::vector<int64_t>{70, 66, 13});
  CHECK(ids_of(hashed("n", 100), people()) == std::vector<int64_t>{71, -1, 88});
  CHECK(ids_of(vocabulary("job", {"cook", "nurse"}, {.unknown = 3}), people()) == std::vector<int64_t>{1, 3, 0});
  CHECK(ids_of(vocabulary("job", {"cook", "nurse"}), people()) == std::vector<int64_t>{1, -1, 0});
  CHECK(ids_of(vocabulary("job", {"cook", "nurse"}, {.otherwise = 1}), people()) == std::vector<int64_t>{1, 1, 0});
  CHECK(ids_of(vocabulary("n", {5, 9}, {.unknown = 3}), people()) == std::vector<int64_t>{0, -1, 3});
  CHECK(ids_of(bucketized("age", {18, 30, 65}), people()) == std::vector<int64_t>{1, 2, 3});
  // As tf.SparseTensors, in which what is missing does not stand.
  CHECK(ids_of(crossed({"job", "n"}, 1000), people()) == std::vector<int64_t>{113, -1, 900});
  CHECK(ids_of(crossed({"n", "job"}, 1000), people()) == std::vector<int64_t>{475, -1, 180});
  CHECK(ids_of(crossed({"job", "n"}, 1000, {.key = 7}), people()) == std::vector<int64_t>{253, -1, 996});
  const Column age = bucketized("age", {18, 30, 65});
  CHECK(ids_of(crossed({age, "job"}, 1000), people()) == std::vector<int64_t>{613, 285, 667});
  // Given dense tensors, TensorFlow hashes names last.
  CHECK(ids_of(crossed({"job", age}, 1000, {.raw_last = true}), people()) == std::vector<int64_t>{613, 285, 667});
  CHECK(ids_of(crossed({"job", vocabulary("job", {"cook", "nurse"}, {.unknown = 3}), age}, 1000, {.raw_last = true}),
               people()) == std::vector<int64_t>{739, 343, 545});
  // A cross of a cross is one of all.
  CHECK(ids_of(crossed({crossed({"job", "n"}, 9), age}, 1000), people()) ==
        ids_of(crossed({"job", "n", age}, 1000), people()));
}

TEST_CASE("rows of several values are crossed in each combination") {
  const Table t{{"tags", "more", "job", "p"},
                {tensor({{"a", "b"}, {"b", "c"}, {"a", "c"}}), tensor({{"x", "y"}, {"z", "w"}, {"u", "v"}}),
                 tensor({"nurse", "smith", "cook"}), tensor({{1.f, 5.f}, {20.f, -3.f}, {NAN, 7.f}})}};
  const Tensor tags = Columns({crossed({"tags", "more"}, 100000)})(t);
  CHECK(numbers(sum(tags, 1)) == Numbers{4, 4, 4});
  for (int64_t id : {18892, 58747, 70004, 79805}) CHECK(tags.item<float>(0, id) == 1);
  const Column buckets = bucketized(numeric("p", {.shape = {2}}), {0, 7});
  CHECK(buckets.buckets() == 6);
  CHECK(numbers(Columns({buckets})(t)) == Numbers{0, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 1});
  const Tensor both = Columns({crossed({buckets, "job"}, 1000)})(t);
  const std::vector<std::vector<int64_t>> expected{{613, 454}, {285, 703}, {949, 622}};
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t id : expected[size_t(row)]) CHECK(both.item<float>(row, id) == 1);
}

TEST_CASE("embeddings and indicators combine as TensorFlow's do") {
  const Column ids = vocabulary("tags", {"a", "b", "c"});
  const Table t{{"tags"}, {tensor({{"a", "b"}, {"b", ""}, {"", ""}})}};
  const Table full{{"tags", "w"},
                   {tensor({{"a", "b"}, {"b", "c"}, {"c", "a"}}), tensor({{.5f, 2.f}, {3.f, 1.f}, {-1.f, 1.f}})}};
  const auto of = [&](Combiner c, bool by_weight) {
    const Columns columns(
        {embedding(by_weight ? weighted(ids, "w") : ids, 2, {.combiner = c, .initializer = counting})});
    return columns(by_weight ? full : t);
  };
  const auto is = [](const Tensor& x, const Numbers& want) {
    CHECK(allclose(x, reshape(tensor(want), x.shape()), {.rtol = 1e-6}));
  };
  is(of(Combiner::mean, false), {1, 2, 2, 3, 0, 0});
  is(of(Combiner::sum, false), {2, 4, 2, 3, 0, 0});
  is(of(Combiner::sqrtn, false), {1.4142135f, 2.8284271f, 2, 3, 0, 0});
  is(of(Combiner::mean, true), {1.6f, 2.6f, 2.5f, 3.5f, 0, 1});
  is(of(Combiner::sum, true), {4, 6.5f, 10, 14, -4, -4});
  is(of(Combiner::sqrtn, true), {1.9402851f, 3.152963f, 3.1622777f, 4.4271889f, 0, 1});
  is(Columns({embedding(ids, 2, {.combiner = Combiner::sum, .initializer = counting, .max_norm = 2.})})(t),
     {1.1094004f, 2.6641006f, 1.1094004f, 1.6641006f, 0, 0});
  CHECK(numbers(Columns({indicator(ids)})(t)) == Numbers{1, 1, 0, 0, 1, 0, 0, 0, 0});
  CHECK(numbers(Columns({indicator(weighted(ids, "w"))})(full)) == Numbers{.5f, 2, 0, 0, 3, 1, 1, 0, -1});
  const Table twice{{"tags"}, {tensor({{"a", "a"}, {"b", "x"}, {"", "c"}})}};
  CHECK(numbers(Columns({indicator(ids)})(twice)) == Numbers{2, 0, 0, 0, 1, 0, 0, 0, 1});
}

TEST_CASE("numbers: shapes, missing ones, normalizers") {
  const Table t{{"x", "v", "k"}, {tensor({1.f, NAN, 3.f}), counting({3, 2}), tensor({1, 2, 3})}};
  CHECK(numbers(Columns({numeric("x", {.missing = 7.})})(t)) == Numbers{1, 7, 3});
  CHECK(std::isnan(Columns({"x"})(t).item<float>(1, 0)));
  const Columns both({numeric("v", {.shape = {2}, .normalizer = [](const Tensor& x) { return x * 10; }}), "k"});
  CHECK(numbers(both(t)) == Numbers{0, 10, 1, 20, 30, 2, 40, 50, 3});
  CHECK(ids_of(identity("k", 4), t) == std::vector<int64_t>{1, 2, 3});
  CHECK(ids_of(identity("k", 3, {.otherwise = 0}), t) == std::vector<int64_t>{1, 2, 0});
  // NaN is in the last bucket, as in TensorFlow.
  CHECK(ids_of(bucketized("x", {0, 2}), t) == std::vector<int64_t>{1, 2, 2});
}

TEST_CASE("embeddings share tables, have names, and are trained by rows") {
  const Table t{{"a", "b"}, {tensor({"x", "y"}), tensor({"y", ""})}};
  const std::vector<Column> shared =
      shared_embeddings({vocabulary("a", {"x", "y"}), vocabulary("b", {"x", "y"})}, 2, {.initializer = counting});
  const Columns columns(shared);
  CHECK(columns.variables().size() == 1);
  CHECK(columns.variables()[0].name() == "a_b_shared_embedding/embedding_weights");
  CHECK(numbers(columns(t)) == Numbers{0, 1, 2, 3, 2, 3, 0, 0});
  const Columns one({embedding(hashed("a", 10), 3), embedding(hashed("b", 10), 3, {.trainable = false})});
  CHECK(one.variables()[0].name() == "a_embedding/embedding_weights");
  CHECK(one.variables().size() == 2);
  CHECK_FALSE(one.variables()[1].trainable());
  // A copy shares its Variables.
  const Columns copy = one;
  CHECK(copy.variables()[0].value().rep() == one.variables()[0].value().rep());
  GradientTape tape;
  const Tensor loss = sum(columns(t) * tensor({{1.f, 2.f, 3.f, 4.f}, {5.f, 6.f, 7.f, 8.f}}));
  const Tensor g = tape.gradient(loss, columns.variables()[0]);
  CHECK(numbers(g) == Numbers{1, 2, 8, 10});
}

TEST_CASE("sparse matrices and linear models give what dense ones do") {
  const std::vector<Column> all{bucketized("age", {18, 30, 65}), hashed("job", 10), crossed({"job", "n"}, 20), "age"};
  const Columns columns(all);
  const SparseTensor sparse = columns.sparse(people());
  CHECK(array_equal(sparse.to_dense(), columns(people())));
  Linear model(all, {.units = 2});
  CHECK(model.variables().size() == 5);
  std::vector<Variable> weights = model.variables();
  std::vector<Tensor> parts;
  for (size_t i = 0; i + 1 < weights.size(); ++i) {
    weights[i].assign(counting(weights[i].shape()) + double(i));
    parts.push_back(weights[i].value());
  }
  CHECK(allclose(model(people()), matmul(columns(people()), concat(parts, 0))));
  CHECK(allclose(model(people()), matmul(sparse, concat(parts, 0))));
  CHECK(weights[0].name() == "linear/age_bucketized/weights");
}

TEST_CASE("sequences: values and lengths") {
  const Table t{{"words", "x"}, {tensor({{"a", "b", ""}, {"c", "", ""}}), tensor({{1.f, 2.f, NAN}, {3.f, NAN, NAN}})}};
  const SequenceColumns columns(
      {embedding(vocabulary("words", {"a", "b", "c"}), 2, {.initializer = counting}), numeric("x", {.missing = 0.})});
  const Sequence s = columns(t);
  CHECK(s.values.shape() == Shape{2, 3, 3});
  CHECK(numbers(s.values) == Numbers{0, 1, 1, 2, 3, 2, 0, 0, 0, 4, 5, 3, 0, 0, 0, 0, 0, 0});
  CHECK(s.lengths.to_vector<int64_t>() == std::vector<int64_t>{2, 1});
}

TEST_CASE("traced: raw columns are arguments, and bits are the eager ones") {
  const Columns columns({bucketized("age", {18, 30, 65}),
                         indicator(vocabulary("job", {"cook", "nurse"}, {.unknown = 2})),
                         embedding(hashed("job", 100), 4), crossed({bucketized("age", {30}), "job"}, 50),
                         hashed("n", 7, {.dtype = i64}), identity("n", 8), numeric("age", {.missing = 0.})});
  auto f = function("features", [&](const std::vector<Tensor>& raw) { return columns(raw); },
                    {.signature = columns.signature()});
  const std::vector<Tensor> raw{people().columns[0], people().columns[1], people().columns[2].astype(i64)};
  CHECK(same_bits(f(raw), columns(people())));
  const std::vector<Tensor> other{tensor({1.f, NAN}), tensor({"", "cook"}), tensor({0, 3}).astype(i64)};
  CHECK(same_bits(f(other), columns(columns.table(other))));
  CHECK(f.trace_count() == 1);
  // A table is an argument too, and a step of training is traced with it.
  auto g = function("table", [&](const Table& t) {
    GradientTape tape;
    const Tensor loss = sum(square(columns(t)));
    return tape.gradient(loss, columns.variables()[0]);
  });
  GradientTape tape;
  const Tensor loss = sum(square(columns(people())));
  CHECK(same_bits(g(people()), tape.gradient(loss, columns.variables()[0])));
}

TEST_CASE("mistakes with feature columns are named") {
  const Table& t = people();
  says([&] { Columns({"salary"})(t); }, {"'salary'", "age, job, n"});
  says([&] { Columns({"job"})(t); }, {"'job'", "texts", "'nurse'", "vocabulary"});
  says([&] { Columns({hashed("age", 10)})(t); }, {"'age'", "has f32", "bucketized"});
  says([&] { Columns({vocabulary("n", {"5"})})(t); }, {"'n'", "as_string"});
  says([&] { Columns({vocabulary("job", {5, 6})})(t); }, {"'job'", "to_number"});
  says([&] { Columns({identity("n", 6)})(t); }, {"'n'", "row 2", "7", "[0, 6)", "otherwise"});
  says([&] { Columns({identity("age", 6)})(t); }, {"'age'", "integers", "astype(i64)"});
  says([&] { Columns({identity("job", 6)})(t); }, {"'job'", "vocabulary"});
  says([&] { Columns({embedding("job", 3)})(t); }, {"'job'", "hashed(\"job\", 1000)"});
  says([&] { indicator(numeric("age")); }, {"'age'", "bucketized"});
  says([&] { embedding(hashed("job", 10), 0); }, {"job_embedding", "dimension is 0"});
  says([&] { embedding(hashed("job", 10), 2, {.initializer = [](const Shape&) { return ones({2}); }}); },
       {"initializer", "f32[2]"});
  says([&] { bucketized("age", {}); }, {"'age'", "no boundaries"});
  says([&] { bucketized("age", {3, 1}); }, {"boundary 1 is 1 after 3"});
  says([&] { bucketized("age", {3, NAN}); }, {"boundary 1"});
  says([&] { bucketized(hashed("job", 3), {3}); }, {"'job'", "numeric"});
  says([&] { hashed("job", 0); }, {"'job'", "0 buckets"});
  says([&] { hashed("", 3); }, {"name is empty"});
  says([&] { hashed("job", 3, {.dtype = f32}); }, {"f32", "string or an integer"});
  says([&] { identity("n", -1); }, {"-1 buckets"});
  says([&] { identity("n", 3, {.otherwise = 3}); }, {"otherwise is 3"});
  says([&] { crossed({"job"}, 10); }, {"two columns"});
  says([&] { crossed({"job", numeric("age")}, 10); }, {"'age'", "bucketized"});
  says([&] { crossed({"job", "n"}, 0); }, {"job_X_n", "0 buckets"});
  says([&] { Columns({crossed({"job", "age"}, 10)})(t); }, {"'age'", "crossed takes texts or integers"});
  says([&] { vocabulary("job", std::vector<std::string>()); }, {"no words"});
  says([&] { vocabulary("job", {"a", "b", "a"}); }, {"0 and 2", "'a'"});
  says([&] { vocabulary("job", {"a"}, {.unknown = -1}); }, {"unknown is -1"});
  says([&] { vocabulary("job", {"a"}, {.unknown = 1, .otherwise = 0}); }, {"not both"});
  says([&] { vocabulary("job", {"a"}, {.otherwise = 1}); }, {"otherwise is 1"});
  says([&] { vocabulary_file("job", "no/such/file"); }, {"cannot read 'no/such/file'", "No such file"});
  says([&] { vocabulary_file("job", "/"); }, {"cannot read '/'", "directory"});
  says([&] { Columns(std::vector<Column>()); }, {"no columns"});
  says([&] { Columns({"age"})(Table{{"age", "job"}, {ones({3})}}); }, {"2 names for 1"});
  says([&] { Columns({"age"})(Table{{"age", "age"}, {ones({3}), ones({3})}}); }, {"'age'", "two of that name"});
  says([&] { Columns({"age"})(Table()); }, {"no columns"});
  says([&] { Columns({"age", "n"})(Table{{"age", "n"}, {ones({3}), ones({4})}}); }, {"'n'", "f32[4]", "'age' has 3"});
  says([&] { Columns({"age"})(Table{{"age"}, {ones({3, 2})}}); }, {"'age'", "one number", "f32[3,2]", ".shape"});
  says([&] { Columns({numeric("age", {.shape = {3}})})(Table{{"age"}, {ones({3, 2})}}); },
       {"'age'", "[3]", "f32[3,2]"});
  says([&] { Columns({hashed("n", 3)})(Table{{"n"}, {tensor(1)}}); }, {"'n'", "[rows]"});
  says([&] { Columns({"age"})(Table{{"age"}, {Tensor()}}); }, {"'age'", "undefined"});
  says([&] { numeric("age", {.shape = {0}}); }, {"below 1"});
  says([&] { Columns({numeric("age", {.normalizer = [](const Tensor& x) { return sum(x); }})})(t); },
       {"'age'", "normalizer", "keep the shape"});
  says([&] { Columns({weighted(hashed("job", 5), "job")})(t); }, {"'job'", "weights are numbers"});
  says([&] { weighted("job", "age"); }, {"'job'", "hashed"});
  says([&] { Columns({weighted(hashed("job", 5), "w")})(Table{{"job", "w"}, {tensor({"a"}), ones({1, 2})}}); },
       {"'w'", "a weight for each value"});
  says([&] { shared_embeddings({hashed("job", 5), hashed("n", 6)}, 2); }, {"'n'", "6 buckets", "'job' has 5"});
  says([&] { shared_embeddings({}, 2); }, {"one column or more"});
  says([&] { Columns({embedding(hashed("job", 5), 2)}).sparse(t); }, {"job_embedding", "dense"});
  says([&] { Linear({embedding(hashed("job", 5), 2)}); }, {"job_embedding"});
  says([&] { Columns({"age", hashed("job", 5)})(std::vector<Tensor>{ones({2})}); },
       {"1 tensors for the 2", "age, job"});
  says([&] { SequenceColumns({hashed("job", 5)})(t); }, {"'job'", "[rows, steps]"});
  says([&] { numeric("age").buckets(); }, {"'age'", "no ids"});
}
