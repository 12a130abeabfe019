// Sparse tensors beside the dense ones that they stand for: every function, its gradients, inside of traced functions
// and vmap, and what mistakes are told. tests/oracle/sparse.py compares with scipy and torch.
#include <cmath>

#include "catch.h"
#include "messages.h"
#include "rill/devices/threads.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {

// A matrix of which about a third is not zero.
Tensor mostly_zeros(const Shape& shape, uint64_t seed = 1, DType dtype = f64) {
  const Tensor x = random::normal(shape, {.key = random::Key(seed)}),
               kept = random::uniform(shape, {.key = random::Key(seed + 100)}) < 0.3;
  return where(kept, x * 4, 0.0).astype(dtype);
}
SparseTensor sparse(const Tensor& x) { return SparseTensor::from_dense(x); }
bool near(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && allclose(a, b, {.rtol = 1e-12, .atol = 1e-12});
}
// Places in no order, one of which comes twice.
SparseTensor unordered(DType dtype = f64) {
  return {tensor({{2, 1}, {0, 3}, {2, 1}, {1, 0}}), tensor({1., 2., 3., 4.}).astype(dtype), {3, 4}};
}

}  // namespace

TEST_CASE("a sparse tensor of every dtype and rank comes back as the dense one") {
  for (DType d : {boolean, i8, i64, u16, f16, bf16, f32, f64, c64, c128})
    for (const Shape& shape :
         {Shape{}, Shape{5}, Shape{3, 4}, Shape{2, 3, 4}, Shape{0, 3}, Shape{3, 0}, Shape{1, 1, 1}}) {
      INFO(name(d) << to_string(shape));
      const Tensor x = mostly_zeros(shape).astype(d);
      const SparseTensor s = sparse(x);
      CHECK(s.is_coalesced());
      CHECK(s.dtype() == d);
      CHECK(s.shape() == shape);
      CHECK(s.nnz() == count_nonzero(x).item<int64_t>());
      CHECK(same_bits(s.to_dense(), x));
      CHECK(same_bits(SparseTensor(s.indices(), s.values(), shape).to_dense(), x));
    }
  CHECK(sparse(tensor({0.f, NAN, -0.f, INFINITY})).indices().to_vector<int64_t>() == std::vector<int64_t>{1, 3});
}

TEST_CASE("coalesce adds up in order and sorts") {
  const SparseTensor s = unordered().coalesce();
  CHECK(s.indices().to_vector<int64_t>() == std::vector<int64_t>{0, 3, 1, 0, 2, 1});
  CHECK(s.values().to_vector<double>() == std::vector<double>{2, 4, 4});
  CHECK(s.is_coalesced());
  CHECK(!unordered().is_coalesced());
  CHECK(same_bits(unordered().to_dense(), s.to_dense()));
  CHECK(unordered(boolean).coalesce().values().to_vector<bool>() == std::vector<bool>{true, true, true});
  const SparseTensor none(zeros({0, 2}, i32), zeros({0}), {3, 4});
  CHECK(none.coalesce().nnz() == 0);
  CHECK(same_bits(none.to_dense(), zeros({3, 4})));
  const SparseTensor scalar(zeros({3, 0}, i64), tensor({1., 2., 3.}), {});
  CHECK(scalar.to_dense().item<double>() == 6);
  CHECK(scalar.coalesce().nnz() == 1);
}

TEST_CASE("products are those of the dense matrices") {
  const Tensor x = mostly_zeros({9, 7});
  const SparseTensor s = sparse(x), u = unordered();
  for (int64_t n : {0, 1, 2, 5, 64, 77}) {
    const Tensor w = random::normal({7, n}, {.key = random::Key(7)}).astype(f64),
                 v = random::normal({n, 9}, {.key = random::Key(8)}).astype(f64);
    CHECK(near(matmul(s, w), matmul(x, w)));
    CHECK(near(matmul(v, s), matmul(v, x)));
    CHECK(near(matmul(s, w.astype(f32)), matmul(x, w.astype(f32))));
  }
  const Tensor v = arange(7).astype(f64);
  CHECK(near(matmul(s, v), matmul(x, v)));
  CHECK(near(matmul(arange(9), s), matmul(arange(9).astype(f64), x)));
  CHECK(near(matmul(u, arange(4).astype(f64)), matmul(u.to_dense(), arange(4).astype(f64))));
  const SparseTensor both = matmul(s, sparse(mostly_zeros({7, 5}, 3)));
  CHECK(both.is_coalesced());
  CHECK(near(both.to_dense(), matmul(x, mostly_zeros({7, 5}, 3))));
  CHECK(near(matmul(u.transpose(), u).to_dense(), matmul(transpose(u.to_dense()), u.to_dense())));
  for (DType d : {i8, i32, u64, c128})
    CHECK(near(matmul(s.astype(d), x.T().astype(d)), matmul(x.astype(d), x.T().astype(d))));
  CHECK(near(sampled_matmul(x, x, tensor({0, 3}), tensor({8, 3})),
             gather_nd(matmul(x, x.T()), tensor({{0, 8}, {3, 3}}))));
}

TEST_CASE("a product with a vector is a column of that with a matrix, bit for bit") {
  // Lengths of rows of every kind: many without entries, one with most of them.
  for (int64_t count : {0, 1, 7, 300, 5000, 200000})
    for (int64_t m : {1, 3, 400, 100000})
      for (DType d : {f32, f64}) {
        const Tensor places = random::randint(0, 1 << 20, {count, 2}, {.key = random::Key(uint64_t(count + m))});
        const Tensor crowd = where(places(all, slice(0, 1)) % 3 == 0, places % m, floor_divide(places % m, 7) + m / 3);
        const SparseTensor s = SparseTensor(concat({crowd(all, slice(0, 1)), places(all, slice(1, none)) % 50}, 1),
                                            random::normal({count}, {.dtype = d}), {m, 50});
        const Tensor x = random::normal({50, 3}, {.dtype = d});
        for (const SparseTensor& t : {s, s.coalesce()}) CHECK(same_bits(matmul(t, x(all, 0)), matmul(t, x)(all, 0)));
      }
  auto traced =
      function("product", [](const Tensor& at) { return matmul(SparseTensor(at, ones({3}), {4, 4}), ones({4})); });
  CHECK(same_bits(traced(tensor({{0, 1}, {0, 3}, {2, 0}})), tensor({2.f, 0.f, 1.f, 0.f})));
  const auto bad = [&](const Tensor& at) { return message_of([&] { traced(at); }); };
  CHECK(has(bad(tensor({{0, 1}, {1, 4}, {2, 0}})), "entry 1 has the column index 4"));
  CHECK(has(bad(tensor({{0, 1}, {1, 3}, {4, 0}})), "entry 2 has the row index 4"));
  CHECK(has(bad(tensor({{-1, 1}, {1, 3}, {2, 0}})), "row index -1"));
}

TEST_CASE("a product has the same bits whatever the number of threads") {
  const Tensor rows = random::randint(0, 3000, {200000}, {.key = random::Key(1)}),
               columns = random::randint(0, 3000, {200000}, {.key = random::Key(2)});
  const SparseTensor s(stack({minimum(rows, columns), columns}, 1), random::normal({200000}, {.key = random::Key(3)}),
                       {5000, 3000});
  const Tensor w = random::normal({3000, 33}, {.key = random::Key(4)});
  const int before = num_threads();
  set_num_threads(1);
  const Tensor one = matmul(s, w), of_one = matmul(s.coalesce(), w), vector = matmul(s, w(all, 0));
  set_num_threads(7);
  CHECK(same_bits(matmul(s, w), one));
  CHECK(same_bits(matmul(s.coalesce(), w), of_one));
  CHECK(same_bits(matmul(s, w(all, 0)), vector));
  set_num_threads(before);
}

TEST_CASE("elementwise functions are those of the dense tensors") {
  const Tensor x = mostly_zeros({4, 5}), y = mostly_zeros({4, 5}, 2);
  const SparseTensor s = sparse(x), t = sparse(y);
  CHECK(near((s + t).to_dense(), x + y));
  CHECK((s + t).nnz() == s.nnz() + t.nnz());
  CHECK(near((s - t).to_dense(), x - y));
  CHECK(near((s * t).to_dense(), x * y));
  CHECK((s * t).nnz() == count_nonzero(x * y).item<int64_t>());
  CHECK(near((s + y), x + y));
  CHECK(near((y + s), x + y));
  CHECK(near(s - y, x - y));
  CHECK(near(y - s, y - x));
  CHECK(near((-s).to_dense(), -x));
  CHECK(near((s * 2.5).to_dense(), x * 2.5));
  CHECK(near((2.5 * s).to_dense(), x * 2.5));
  CHECK(near((s / 4.0).to_dense(), x / 4.0));
  CHECK(near((s * y).to_dense(), x * y));
  const Tensor row = arange(5).astype(f64), column = reshape(arange(4).astype(f64), {4, 1});
  CHECK(near((s * row).to_dense(), x * row));
  CHECK(near((s * column).to_dense(), x * column));
  CHECK(near((column * s).to_dense(), x * column));
  CHECK(near((s / (row + 1)).to_dense(), x / (row + 1)));
  CHECK((s * INFINITY).nnz() == s.nnz());
  CHECK(all(equal((s * full({4, 5}, NAN, f64)).to_dense() == 0, x == 0)).item<bool>());
  CHECK((s.astype(f32) * y).dtype() == f64);
  CHECK((s.astype(f32) * 2.0).dtype() == f32);
  CHECK((sparse(tensor({1, 2})) * 0.5).dtype() == f32);
  CHECK(near(s.with_values(exp(s.values())).to_dense(), where(x != 0, exp(x), 0.0)));
  CHECK(near(s.with_values(1.0).to_dense().astype(f64), (x != 0).astype(f64)));
  const SparseTensor scalar(zeros({2, 0}, i64), tensor({1., 2.}), {});
  CHECK((scalar + tensor(4.)).item<double>() == 7);
}

TEST_CASE("sums and means count what is not listed") {
  const Tensor x = mostly_zeros({3, 4, 5});
  const SparseTensor s = sparse(x), t = s.transpose({2, 0, 1});
  CHECK(near(sum(s), sum(x)));
  CHECK(near(mean(s), mean(x)));
  for (const Axes& axes : {Axes(0), Axes(-1), Axes(0, 2), Axes(0, 1, 2)})
    for (bool keepdims : {false, true}) {
      CHECK(near(sum(s, axes, keepdims), sum(x, {.axis = axes, .keepdims = keepdims})));
      CHECK(near(mean(s, axes, keepdims), mean(x, {.axis = axes, .keepdims = keepdims})));
    }
  CHECK(near(s.sum_sparse({0, 2}).to_dense(), sum(x, {0, 2})));
  CHECK(mean(sparse(tensor({16777217, -16777216}))).item<float>() == 0.5f);  // whole numbers are added as such
  CHECK(near(sum(t, 0), sum(x, 2)));
  for (DType d : {boolean, i8, u8, f16, bf16, i32, c64}) {
    INFO(name(d));
    const Tensor y = x.astype(d);
    CHECK(sum(sparse(y)).dtype() == sum(y).dtype());
    CHECK(sum(sparse(y), 1).dtype() == sum(y, 1).dtype());
    CHECK(mean(sparse(y), 1).dtype() == mean(y, 1).dtype());
    CHECK(allclose(sum(sparse(y), 1).astype(c128), sum(y, 1).astype(c128), {.rtol = 1e-2, .atol = 1e-2}));
  }
}

TEST_CASE("shapes, slices and joining") {
  const Tensor x = mostly_zeros({4, 6, 2});
  const SparseTensor s = sparse(x);
  CHECK(same_bits(transpose(s).to_dense(), transpose(x)));
  CHECK(same_bits(transpose(s, {1, 0, 2}).to_dense(), transpose(x, {1, 0, 2})));
  CHECK(transpose(s, {0, 1, 2}).is_coalesced());
  CHECK(!transpose(s).is_coalesced());
  CHECK(same_bits(reshape(s, {8, -1}).to_dense(), reshape(x, {8, -1})));
  CHECK(same_bits(reshape(s, {48}).to_dense(), ravel(x)));
  // 2^64 places are not none.
  const SparseTensor nothing = sparse(zeros({0, 3}));
  says([&] { nothing.reshape({int64_t(1) << 32, int64_t(1) << 32}); }, {"reshape", "[4294967296,4294967296]"});
  says([&] { nothing.reshape({int64_t(1) << 32, int64_t(1) << 32, -1}); }, {"reshape"});
  CHECK(reshape(s, {8, 6}).is_coalesced());
  CHECK(same_bits(s(slice(1, 3)).to_dense(), x(slice(1, 3))));
  CHECK(s(slice(1, 3)).is_coalesced());
  CHECK(same_bits(s(2).to_dense(), x(2)));
  CHECK(same_bits(s(-1, slice(none, none, 2), 1).to_dense(), x(-1, slice(none, none, 2), 1)));
  CHECK(same_bits(s(all, slice(-2, none, -3)).to_dense(), x(all, slice(-2, none, -3))));
  CHECK(same_bits(s(slice(3, 1)).to_dense(), x(slice(3, 1))));
  CHECK(same_bits(s(1, 2, 0).to_dense(), x(1, 2, 0)));
  CHECK(same_bits(s(slice(-100, 100)).to_dense(), x));
  for (int axis : {0, 1, -1}) CHECK(same_bits(concat({s, s}, axis).to_dense(), concat({x, x}, axis)));
  CHECK(concat({s, s}).is_coalesced());
  CHECK(concat({s, s.astype(f32)}).dtype() == f64);
  const SparseTensor huge(tensor({{int64_t(1) << 40, int64_t(5)}}), tensor({2.f}), {int64_t(1) << 41, 1 << 20});
  CHECK(huge.transpose().coalesce().reshape({-1}).indices().item<int64_t>() == (int64_t(5) << 41) + (int64_t(1) << 40));
  CHECK(sum(huge).item<float>() == 2);
}

TEST_CASE("to and from rows as scipy stores them") {
  const Tensor x = mostly_zeros({5, 6});
  const CsrParts p = sparse(x).to_csr();
  CHECK(p.row_starts.shape() == Shape{6});
  CHECK(same_bits(SparseTensor::from_csr(p).to_dense(), x));
  const CsrParts u = unordered().to_csr();
  CHECK(u.row_starts.to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2, 4});
  CHECK(u.columns.to_vector<int64_t>() == std::vector<int64_t>{3, 0, 1, 1});
  CHECK(u.values.to_vector<double>() == std::vector<double>{2, 4, 1, 3});
  CHECK_THROWS_WITH(SparseTensor::from_csr({tensor({0, 2, 1, 3}), tensor({0, 1, 2}), tensor({1., 2., 3.}), {3, 4}}),
                    contains_text("must ascend from 0 to 3"));
  CHECK_THROWS_WITH(SparseTensor::from_csr({tensor({0, 3}), tensor({0, 1, 2}), tensor({1., 2., 3.}), {3, 4}}),
                    contains_text("integers [4]"));
}

TEST_CASE("gradients flow into the values and into dense operands") {
  const SparseTensor s = unordered();
  const Tensor w = mostly_zeros({4, 3}) + 1.0;
  const auto same_gradient = [&](auto&& of_sparse) {
    // The same function of the dense tensor, whose gradient at the places is that of the values.
    const auto by_values = grad([&](const Tensor& v) { return sum(square(of_sparse(s.with_values(v)))); })(s.values());
    const double e = 1e-6;
    for (int64_t i = 0; i < 4; ++i) {
      const Tensor step = astype(arange(4) == i, f64) * e;
      const double up = sum(square(of_sparse(s.with_values(s.values() + step)))).template item<double>(),
                   down = sum(square(of_sparse(s.with_values(s.values() - step)))).template item<double>();
      CHECK(by_values(i).template item<double>() == Approx((up - down) / (2 * e)).epsilon(1e-5));
    }
  };
  same_gradient([&](const SparseTensor& a) { return matmul(a, w); });
  same_gradient([&](const SparseTensor& a) { return matmul(a, w(all, 0)); });
  same_gradient([&](const SparseTensor& a) { return matmul(w.T()(all, slice(0, 3)), a); });
  same_gradient([&](const SparseTensor& a) { return a.to_dense(); });
  same_gradient([&](const SparseTensor& a) { return a.coalesce().values(); });
  same_gradient([&](const SparseTensor& a) { return sum(a, 1); });
  same_gradient([&](const SparseTensor& a) { return mean(a); });
  same_gradient([&](const SparseTensor& a) { return matmul(a.transpose(), a).values(); });
  same_gradient([&](const SparseTensor& a) { return (a * w.T()(slice(0, 3)) + a).to_dense(); });
  same_gradient([&](const SparseTensor& a) { return (a * a)(slice(1, none)).values(); });
  same_gradient([&](const SparseTensor& a) { return a + w.T()(slice(0, 3)); });
  const auto product = [&](const Tensor& v, const Tensor& x) { return sum(square(matmul(s.with_values(v), x))); };
  const auto dense = [&](const Tensor& x) { return sum(square(matmul(s.to_dense(), x))); };
  CHECK(near(grad([&](const Tensor& x) { return product(s.values(), x); })(w), grad(dense)(w)));
  CHECK(near(hessian([&](const Tensor& x) { return product(s.values(), x); })(w), hessian(dense)(w)));
  // Of a sparse tensor from a dense one, to that.
  const Tensor x = mostly_zeros({3, 4});
  CHECK(near(grad([](const Tensor& x) { return sum(square(sparse(x).values())); })(x), 2.0 * x));
  // As a structure: the gradient lists the same places.
  const auto [loss, g] = value_and_grad([&](const SparseTensor& a) { return sum(square(matmul(a, w))); })(s);
  CHECK(near(g.values(), grad([&](const Tensor& v) { return product(v, w); })(s.values())));
}

TEST_CASE("traced functions take and give sparse tensors of any number of elements") {
  int traces = 0;
  const Tensor w = mostly_zeros({4, 3}) + 1.0;
  auto f = function("f", [&](const SparseTensor& a, const Tensor& x) {
    ++traces;
    return std::pair(a * 2.0 + a.with_values(exp(a.values())), matmul(a, x) + sum(a, 1, true));
  });
  const SparseTensor a = unordered(), b(tensor({{1, 1}}), tensor({5.}), {3, 4});
  for (const SparseTensor& s : {a, b, a}) {
    const auto [y, z] = f(s, w);
    CHECK(near(y.to_dense(), (s * 2.0 + s.with_values(exp(s.values()))).to_dense()));
    CHECK(same_bits(z, matmul(s, w) + sum(s, 1, true)));
  }
  CHECK(traces <= 3);
  auto open = function(
      "open", [&](const Tensor& i, const Tensor& v, const Tensor& x) { return matmul(SparseTensor(i, v, {3, 4}), x); });
  CHECK(same_bits(open(a.indices(), a.values(), w), matmul(a, w)));
  CHECK(has(message_of([&] { open(tensor({{3, 0}}), tensor({1.}), w); }),
            "entry 0 has the row index 3, and there are 3 rows"));
  auto g = function("g", [&](const Tensor& v) {
    return grad([&](const Tensor& v) { return sum(square(matmul(a.with_values(v), w))); })(v);
  });
  CHECK(
      near(g(a.values()), grad([&](const Tensor& v) { return sum(square(matmul(a.with_values(v), w))); })(a.values())));
  // What a function finds outside has known places.
  auto known = function("known", [&](const Tensor& v) { return a.with_values(v).coalesce().values(); });
  CHECK(same_bits(known(a.values()), a.coalesce().values()));
  for (auto&& text :
       {message_of([&] { function("c", [](const SparseTensor& s) { return s.coalesce(); })(a); }),
        message_of([&] { function("s", [](const SparseTensor& s) { return s(slice(0, 1)); })(a); }),
        message_of([&] { function("m", [](const SparseTensor& s) { return s * s; })(a); }),
        message_of([&] { function("p", [](const SparseTensor& s) { return matmul(s, s.transpose()); })(a); })})
    CHECK(has(text, "depends on the indices of a sparse tensor"));
  CHECK(has(message_of([&] { function("d", [](const Tensor& x) { return sparse(x); })(w); }),
            "how many elements are not zero"));
}

TEST_CASE("vmap over values, over dense operands, and over both") {
  const SparseTensor s = unordered();
  const Tensor v = mostly_zeros({5, 4}) + 1.0, w = mostly_zeros({5, 4, 3}) + 1.0;
  const auto product = [&](const Tensor& v, const Tensor& w) { return matmul(s.with_values(v), w); };
  const auto rows = [&](auto&& f) {
    std::vector<Tensor> out;
    for (int i = 0; i < 5; ++i) out.push_back(f(i));
    return stack(out);
  };
  CHECK(near(vmap(product)(v, w), rows([&](int i) { return product(v(i), w(i)); })));
  CHECK(near(vmap([&](const Tensor& v) { return product(v, w(0)); })(v),
             rows([&](int i) { return product(v(i), w(0)); })));
  CHECK(near(vmap([&](const Tensor& w) { return matmul(s, w); })(w), rows([&](int i) { return matmul(s, w(i)); })));
  CHECK(near(vmap([&](const Tensor& w) { return matmul(w.T(), s.transpose()); })(w),
             rows([&](int i) { return matmul(w(i).T(), s.transpose()); })));
  CHECK(near(vmap([&](const Tensor& v) { return s.with_values(v).coalesce().to_dense(); })(v),
             rows([&](int i) { return s.with_values(v(i)).to_dense(); })));
  CHECK(near(vmap([&](const Tensor& v) { return sum(s.with_values(v), 0); })(v),
             rows([&](int i) { return sum(s.with_values(v(i)), 0); })));
  const auto slope = [&](const Tensor& v, const Tensor& w) {
    return grad([&](const Tensor& v) { return sum(square(product(v, w))); })(v);
  };
  CHECK(near(vmap(slope)(v, w), rows([&](int i) { return slope(v(i), w(i)); })));
}

TEST_CASE("on the reference device") {
  const SparseTensor s = unordered();
  const SparseTensor r(s.indices().to("ref:0"), s.values().to("ref:0"), s.shape());
  const auto here = [](const Tensor& t) {
    CHECK(t.device() == Device("ref:0"));
    return t.to("cpu:0");
  };
  CHECK(near(here(r.coalesce().to_dense()), s.to_dense()));
  CHECK(near(here(r(slice(1, none)).values()), s(slice(1, none)).values()));
  CHECK(near(here((r * r).to_dense()), (s * s).to_dense()));
  CHECK(near(here(matmul(r, r.transpose()).to_dense()), matmul(s, s.transpose()).to_dense()));
  CHECK(near(here(sum(r, 1)), sum(s, 1)));
  CHECK(near(here(SparseTensor::from_dense(r.to_dense()).values()), s.coalesce().values()));
  const CsrParts p = r.to_csr();
  CHECK(near(here(SparseTensor::from_csr(p).to_dense()), s.to_dense()));
}

TEST_CASE("text") {
  CHECK(to_string(unordered()) ==
        "SparseTensor f64[3,4], 4 listed\n(2, 1)  1.0\n(0, 3)  2.0\n(2, 1)  3.0\n(1, 0)  4.0");
  CHECK(has(to_string(sparse(ones({100}))), "\n(24)  1.0\n...\n(75)  1.0"));
  CHECK(to_string(SparseTensor()) == "SparseTensor (undefined)");
}

TEST_CASE("mistakes are told with the caller's line") {
  const Tensor i = tensor({{0, 1}, {2, 3}}), v = tensor({1., 2.});
  const SparseTensor s(i, v, {3, 4});
  const auto told = [](auto&& f, std::string_view part) {
    const std::string text = message_of(f);
    INFO(text);
    CHECK(has(text, part));
    CHECK(has(text, "test_sparse.cpp:"));
  };
  told([&] { SparseTensor(i, v, {3, 3}); }, "index 3 of element 1 is out of range for axis 1, of size 3");
  told([&] { SparseTensor(-i, v, {3, 4}); }, "index -2 of element 1");
  told([&] { SparseTensor(i.astype(f32), v, {3, 4}); }, "must be integers of the shape [n, 2]");
  told([&] { SparseTensor(i, v, {3}); }, "must be integers of the shape [n, 1]");
  told([&] { SparseTensor(i, tensor({1.}), {3, 4}); }, "must be 2 numbers or bools");
  told([&] { SparseTensor(i, tensor({"a", "b"}), {3, 4}); }, "must be 2 numbers or bools");
  told([&] { SparseTensor(i, v, {-3, 4}); }, "no size may be negative");
  told([&] { SparseTensor(i, v, {int64_t(1) << 40, int64_t(1) << 40}); }, "less than 2^63");
  told([&] { SparseTensor(Tensor(), v, {3, 4}); }, "undefined");
  told([&] { SparseTensor().nnz(); }, "undefined");
  told([&] { SparseTensor().to_dense(); }, "undefined");
  told([&] { matmul(s, ones({3, 4}, f64)); }, "4 columns and 3 rows");
  told([&] { matmul(ones({4}, f64), s); }, "4 columns and 3 rows");
  told([&] { matmul(s, tensor(1.)); }, "must be a matrix or a vector");
  told([&] { matmul(s, ones({4, 1, 1}, f64)); }, "must be a matrix or a vector");
  told([&] { matmul(s.reshape({12}), ones({12}, f64)); }, "sparse products are of matrices");
  told([&] { matmul(s.astype(boolean), ones({4}, boolean)); }, "bool");
  told([&] { matmul(s, s); }, "4 columns and 3 rows");
  told([&] { add(s, s.transpose()); }, "which must be equal");
  told([&] { s + s.transpose(); }, "which must be equal");
  told([&] { s + ones({4}); }, "a sparse tensor does not broadcast");
  told([&] { s* ones({3}); }, "does not broadcast to [3,4]");
  told([&] { s* Tensor(); }, "undefined");
  told([&] { sum(s, 2); }, "axis 2 is out of bounds");
  told([&] { sum(s, {0, 0}); }, "repeated");
  told([&] { s.reshape({5, -1}); }, "cannot have the shape [5,-1]");
  told([&] { s.transpose({0}); }, "1 axes are named");
  told([&] { s(3); }, "out of bounds");
  told([&] { s(0, 0, 0); }, "3 indices");
  told([&] { s(tensor({0})); }, "integers, slices");
  told([&] { s(slice(none, none, 0)); }, "step");
  told([&] { concat({s, s.transpose()}); }, "must be equal but for axis 0");
  told([&] { concat(std::vector<SparseTensor>()); }, "no tensors");
  told([&] { s.with_values(ones({3})); }, "");
  told([&] { SparseTensor::from_dense(tensor({"a"})); }, "strings");
  told([&] { s.reshape({12}).to_csr(); }, "must be that of a matrix");
  told([&] { sampled_matmul(ones({2, 3}), ones({2, 3}), tensor({0, 2}), tensor({0, 0})); },
       "entry 1 has the row index 2");
  told([&] { sampled_matmul(ones({2, 3}), ones({2, 3}), tensor({0.}), tensor({0})); }, "must be integers");
}
