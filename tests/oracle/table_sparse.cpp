// Sparse tensors, for the cases of sparse.py. A sparse operand comes as its values and a vector of indices for each
// axis.
#include "cases.h"

using namespace rill;

namespace oracle {
namespace {

// The sparse operand that begins at operand `first`, of the shape that an option names.
SparseTensor sparse(const Call& c, size_t first = 0, const char* shape = "shape") {
  const Shape s(c.dims(shape));
  const Values columns(c.in.begin() + int64_t(first) + 1, c.in.begin() + int64_t(first) + 1 + s.ndim());
  return {stack(columns, 1), c[first], s};
}
SparseTensor other(const Call& c, const char* shape = "shape") { return sparse(c, 1 + c.dims("shape").size(), shape); }
const Tensor& last(const Call& c) { return c.in.back(); }

void add_sparse_products(Table& t) {
  t["sparse matmul"] = {[](const Call& c) -> Values { return {matmul(sparse(c), last(c))}; }};
  t["matmul sparse"] = {[](const Call& c) -> Values { return {matmul(last(c), sparse(c))}; }};
  t["sparse matmul sparse"] = {
      [](const Call& c) -> Values { return {matmul(sparse(c), other(c, "other")).to_dense()}; }, false};
  t["sampled_matmul"] = {[](const Call& c) -> Values { return {sampled_matmul(c[0], c[1], c[2], c[3])}; }};
}

void add_arithmetic(Table& t) {
  t["sparse add sparse"] = {[](const Call& c) -> Values { return {add(sparse(c), other(c)).to_dense()}; }};
  t["sparse subtract sparse"] = {[](const Call& c) -> Values { return {subtract(sparse(c), other(c)).to_dense()}; }};
  t["sparse multiply sparse"] = {[](const Call& c) -> Values { return {multiply(sparse(c), other(c)).to_dense()}; },
                                 false};
  t["sparse add"] = {[](const Call& c) -> Values { return {add(sparse(c), last(c))}; }};
  t["sparse multiply"] = {[](const Call& c) -> Values { return {multiply(sparse(c), last(c)).to_dense()}; }};
  t["sparse sum"] = {[](const Call& c) -> Values { return {sum(sparse(c), c.axes())}; }};
}

void add_shapes_of_sparse(Table& t) {
  t["sparse dense"] = {[](const Call& c) -> Values { return {sparse(c).to_dense()}; }};
  t["sparse coalesce"] = {[](const Call& c) -> Values { return {sparse(c).coalesce().to_dense()}; }, false};
  t["sparse transpose"] = {[](const Call& c) -> Values { return {transpose(sparse(c), c.axes()).to_dense()}; }};
  t["sparse reshape"] = {[](const Call& c) -> Values { return {reshape(sparse(c), Shape(c.dims("to"))).to_dense()}; }};
  t["sparse slice"] = {[](const Call& c) -> Values {
                         const Slice s = slice(c.integer("start", 0), c.integer("stop", 0), c.integer("step", 1));
                         return {sparse(c)(s).to_dense()};
                       },
                       false};
  t["sparse concat"] = {[](const Call& c) -> Values { return {concat({sparse(c), sparse(c)}, *c.axis()).to_dense()}; }};
}

}  // namespace

void add_sparse(Table& t) {
  add_sparse_products(t);
  add_arithmetic(t);
  add_shapes_of_sparse(t);
}

}  // namespace oracle
