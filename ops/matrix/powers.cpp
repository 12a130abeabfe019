// Powers and products of matrices: the record of expm, and matrix_power, multi_dot, vecdot, diagonal and trace, which
// are composed.
#include <fmt/format.h>

#include <algorithm>

#include "rill/ops/matrix/matrix_rules.h"
#include "rill/ops/option_checks.h"

namespace rill {
namespace {

using namespace matrix_rules;

extern const Op expm_op;
Tensor run_expm(const Tensor& x) { return apply1(expm_op, {&x}, {}, Where::current()); }

// The derivative of the exponential at x along e is the upper right block of exp [[x, e], [0, x]] (Najfeld, Havel
// 1995).
Tensor derivative_along(const Tensor& x, const Tensor& e) {
  const Dim n = x.shape().back();
  const Tensor upper = concat({x, e}, -1), lower = concat({zeros_like(x), x}, -1);
  return slice_axis(slice_axis(run_expm(concat({upper, lower}, -2)), -2, 0, n), -1, n, 2 * n);
}

const Op expm_op({
    .name = "expm",
    .doc = "exp(x) = sum_k x^k / k! of each matrix, by scaling, a Pade approximant of degree 13, and squaring",
    .dtypes = matrix_rules::dtypes,
    .infer = infer_square,
    .vjp = [](const VjpArgs& args) -> Tensors { return {derivative_along(adjoint(args.in[0]), args.cotangent[0])}; },
    .saves_in = save(0),
    .jvp = [](const JvpArgs& args) -> Tensors { return {derivative_along(args.in[0], args.tangent[0])}; },
    .batch = batch_rows,
    .cpu = cpu::expm,
    .ref = ref::expm,
    .wants_contiguous = true,
    .samples = []() -> std::vector<Sample> {
      using samples::uniform;
      return {{{uniform({3, 3}, -1, 1)}, {}},
              {{uniform({2, 4, 4}, -3, 3)}, {}},
              {{uniform({1, 1})}, {}},
              {{uniform({0, 0})}, {}}};
    },
    .norm_tolerance = 400,
});

// --- multi_dot -------------------------------------------------------------------------------------------------------

// The order in which the matrices of a chain are multiplied, as the polygon that its sizes are cut into triangles
// (Hu, Shing 1981): matrix i has sizes[i] rows and sizes[i + 1] columns, and is the side from corner i to corner i + 1;
// a product is the third side of a triangle.
class ProductOrder {
 public:
  explicit ProductOrder(const std::vector<double>& sizes) : sizes_(sizes), sides_(sizes.size()) {
    constexpr size_t few = 200;
    if (sizes.size() <= few) search();
    else cut();
    for (std::vector<size_t>& s : sides_) std::sort(s.begin(), s.end());
  }
  // Without recursion, which would be as deep as the chain is long.
  Tensor product(const std::vector<Tensor>& x) const {
    struct Part {
      size_t first, last;  // corners
      bool parts_are_done;
    };
    std::vector<Part> todo{{0, sizes_.size() - 1, false}};
    std::vector<Tensor> done;
    while (!todo.empty()) {
      const Part p = todo.back();
      todo.pop_back();
      if (p.parts_are_done) {
        const Tensor right = std::move(done.back());
        done.pop_back();
        done.back() = matmul(done.back(), right);
      } else if (p.last - p.first == 1) {
        done.push_back(x[p.first]);
      } else {
        const size_t corner = corner_between(p.first, p.last);
        todo.insert(todo.end(), {{p.first, p.last, true}, {corner, p.last, false}, {p.first, corner, false}});
      }
    }
    return done.back();
  }

 private:
  // The triangle on this side is the one with the last corner before `last` that has a side with `first`.
  size_t corner_between(size_t first, size_t last) const {
    const std::vector<size_t>& s = sides_[first];
    const auto at = std::lower_bound(s.begin(), s.end(), last);
    return at == s.begin() ? first + 1 : std::max(*(at - 1), first + 1);
  }
  void add_side(size_t i, size_t j) {
    if (i > j) std::swap(i, j);
    if (j - i > 1) sides_[i].push_back(j);
  }

  // The cheapest, by dynamic programming (Cormen et al., "Introduction to Algorithms", 15.2), in n^3 steps.
  void search() {
    const size_t n = sizes_.size() - 1;
    std::vector<double> cost(n * n);
    std::vector<size_t> split(n * n);
    for (size_t length = 2; length <= n; ++length)
      for (size_t i = 0; i + length <= n; ++i) {
        const size_t j = i + length - 1;
        for (size_t k = i; k < j; ++k) {
          const double c = cost[i * n + k] + cost[(k + 1) * n + j] + sizes_[i] * sizes_[k + 1] * sizes_[j + 1];
          if (k > i && c >= cost[i * n + j]) continue;
          cost[i * n + j] = c;
          split[i * n + j] = k;
        }
      }
    std::vector<std::pair<size_t, size_t>> todo{{0, n - 1}};
    while (!todo.empty()) {
      const auto [i, j] = todo.back();
      todo.pop_back();
      if (i == j) continue;
      const size_t k = split[i * n + j];
      add_side(i, k + 1), add_side(k + 1, j + 1);
      todo.insert(todo.end(), {{i, k}, {k + 1, j}});
    }
  }

  // One that takes at most 2 / sqrt(3) times as many multiplications, in n steps (Chin 1978; Hu, Shing 1981): around
  // from the smallest corner, each is cut off where that is cheaper than the triangles with the smallest corner; these
  // are what is left.
  void cut() {
    const size_t n = sizes_.size(), least = size_t(std::min_element(sizes_.begin(), sizes_.end()) - sizes_.begin());
    std::vector<size_t> kept;
    for (size_t step = 1; step <= n; ++step) {
      const size_t next = (least + step) % n;
      while (kept.size() >= 2) {
        const double before = sizes_[kept[kept.size() - 2]], last = sizes_[kept.back()];
        if (1 / sizes_[least] + 1 / last >= 1 / before + 1 / sizes_[next]) break;
        add_side(kept[kept.size() - 2], next);
        kept.pop_back();
      }
      kept.push_back(next);
    }
    for (size_t corner : kept)
      if (corner != least) add_side(least, corner);
  }

  std::vector<double> sizes_;
  std::vector<std::vector<size_t>> sides_;  // of each corner, the larger corners to which it has a side inside
};

void check_square(std::string_view op, const Tensor& x, const Where& where) {
  if (x.ndim() >= 2 && x.shape()[size_t(x.ndim()) - 2] == x.shape().back()) return;
  fail(op, fmt::format("the matrix must be square. operands: {}", to_string(x.spec())), where);
}

}  // namespace

namespace linalg {

Tensor matrix_power(const Tensor& x, int64_t n, Where where) {
  CallerScope caller(where);
  require_operand("matrix_power", x, where);
  check_square("matrix_power", x, where);
  if (n == 0) return broadcast_to(identity_like(x), x.shape());
  Tensor square = n < 0 ? inv(x, where) : x, y;
  for (uint64_t left = n < 0 ? 0 - uint64_t(n) : uint64_t(n);;) {
    if (left & 1) y = y.defined() ? matmul(y, square) : square;
    left >>= 1;
    if (left == 0) return y;
    square = matmul(square, square);
  }
}

Tensor expm(const Tensor& x, Where where) {
  const Tensor a = operand("expm", x, where);
  return apply1(expm_op, {&a}, {}, where);
}

Tensor multi_dot(const std::vector<Tensor>& x, Where where) {
  CallerScope caller(where);
  if (x.size() < 2) fail("multi_dot", fmt::format("two operands or more are needed, not {}", x.size()), where);
  std::vector<Tensor> in = x;
  for (size_t i = 0; i < in.size(); ++i) {
    require_operand("multi_dot", in[i], where);
    const bool end = i == 0 || i + 1 == in.size();
    if (in[i].ndim() == 2 || (end && in[i].ndim() == 1)) continue;
    fail("multi_dot",
         fmt::format("operand {} is {}; {}", i, to_string(in[i].spec()),
                     end ? "the first and the last must be matrices or vectors" : "those between must be matrices"),
         where);
  }
  const bool row = in.front().ndim() == 1, column = in.back().ndim() == 1;
  if (row) in.front() = expand_dims(in.front(), 0);
  if (column) in.back() = expand_dims(in.back(), -1);
  std::vector<double> sizes{double(in[0].shape()[0].hint())};
  for (const Tensor& t : in) sizes.push_back(double(t.shape()[1].hint()));
  Tensor y = ProductOrder(sizes).product(in);
  if (column) y = squeeze(y, -1);
  return row ? squeeze(y, 0) : y;
}

Tensor khatri_rao(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  require_operand("khatri_rao", a, where);
  require_operand("khatri_rao", b, where);
  if (a.ndim() < 2 || b.ndim() < 2 || a.shape().back() != b.shape().back())
    fail("khatri_rao",
         fmt::format("takes matrices with as many columns. operands: {}, {}", to_string(a.spec()), to_string(b.spec())),
         where);
  const Tensor y = expand_dims(a, -2) * expand_dims(b, -3);
  return flatten(y, -3, -2);
}

Tensor vecdot(const Tensor& a, const Tensor& b, Axis axis, Where where) {
  CallerScope caller(where);
  require_operand("vecdot", a, where);
  require_operand("vecdot", b, where);
  const int64_t at = axis < 0 ? int64_t(axis) : int64_t(axis) - a.ndim();
  normal_axis(at, a, "vecdot", where);
  normal_axis(at, b, "vecdot", where);
  const Dim n = a.shape()[size_t(a.ndim() + at)], m = b.shape()[size_t(b.ndim() + at)];
  if (n != m)
    fail("vecdot",
         fmt::format("axis {} differs in size: {} != {}. operands: {}, {}", at, n, m, to_string(a.spec()),
                     to_string(b.spec())),
         where);
  const Tensor row = expand_dims(conj(moveaxis(a, at, -1)), -2), column = expand_dims(moveaxis(b, at, -1), -1);
  return squeeze(matmul(row, column), {-2, -1});
}

namespace {
// The number of elements of x's axes from `first` to before `last`.
Dim count_of(const Tensor& x, int64_t first, int64_t last) {
  Dim n = 1;
  for (int64_t i = first; i < last; ++i) n *= x.shape()[size_t(i)];
  return n;
}
}  // namespace

Tensor tensorsolve(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  require_operand("tensorsolve", a, where);
  require_operand("tensorsolve", b, where);
  const int64_t n = b.ndim();
  if (a.ndim() < n || count_of(a, 0, n) != b.size() || count_of(a, n, a.ndim()) != b.size())
    fail("tensorsolve",
         fmt::format("the first {} axes of a, and the others, must have as many numbers as b, {}. operands: {}, {}", n,
                     b.size(), to_string(a.spec()), to_string(b.spec())),
         where);
  const Tensor x = solve(reshape(a, {b.size(), b.size()}), ravel(b), where);
  return reshape(x, Shape(a.shape().begin() + n, a.shape().end()));
}

Tensor tensorinv(const Tensor& x, int64_t ind, Where where) {
  CallerScope caller(where);
  require_operand("tensorinv", x, where);
  require_option(ind >= 1 && ind <= x.ndim(), "tensorinv", "ind", ind, fmt::format("from 1 to {}", x.ndim()), where);
  const Dim n = count_of(x, 0, ind);
  if (count_of(x, ind, x.ndim()) != n)
    fail("tensorinv",
         fmt::format("the first {} axes and the others must have as many numbers. operands: {}", ind,
                     to_string(x.spec())),
         where);
  Shape result(x.shape().begin() + ind, x.shape().end());
  for (int64_t i = 0; i < ind; ++i) result.push_back(x.shape()[size_t(i)]);
  return reshape(inv(reshape(x, {n, n}), where), result);
}

Tensor diagonal(const Tensor& x, int offset, Where where) { return rill::diagonal(x, offset, -2, -1, where); }
Tensor trace(const Tensor& x, int offset, Where where) { return rill::trace(x, offset, -2, -1, where); }

}  // namespace linalg
}  // namespace rill
