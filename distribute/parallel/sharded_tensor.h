// Tensors that know their distribution over the ranks of a Mesh, and convert to another layout with the least traffic.
//
//   auto w = distribute::ShardedTensor::of(whole, mesh, {none, "model"});   // columns; nothing travels
//   auto y = matmul(x, w);                                                  // {"data", "model"}, if x is {"data", none}
//   auto z = y.to({"data", none});                                          // all_gather along "model"
//   std::cout << to_string(y.plan({"model", "data"}));                      // what it would take, and how many bytes
//
// A tensor may also be a sum: along some axes of the mesh each rank has a term, the result of a product over a split
// axis. to() adds them up.
//
//   from, along an axis of the mesh   to            by
//   everywhere                        cut           nothing: each rank keeps its part
//   cut                               everywhere    all_gather
//   cut                               cut elsewhere all_to_all
//   terms of a sum                    everywhere    all_reduce
//   terms of a sum                    cut           reduce_scatter
#pragma once
#include <string>
#include <vector>

#include "rill/distribute/parallel/mesh.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

// A collective along an axis of the mesh, for the tensor's layout at that point.
struct LayoutStep {
  std::string what;  // "slice", "all_gather", "all_to_all", "all_reduce" or "reduce_scatter"
  std::string mesh_axis;
  int64_t from = -1, to = -1;  // axes of the tensor; -1: not split, before and after
  int64_t bytes = 0;           // that each rank sends, at least
};
// A line each: "all_gather along 'model', axis 1: 96 bytes".
std::string to_string(const std::vector<LayoutStep>& steps);

class ShardedTensor {
 public:
  // This rank's part of a tensor that is complete on all ranks.
  static ShardedTensor of(const Tensor& whole, const Mesh& mesh, const Layout& layout, Where where = Where::current());
  // From this rank's part, of the same shape and dtype on all; `sums`: axes of the mesh along which it is a term.
  // Throws if the layout names an axis twice, more axes than there are, or one of `sums`.
  ShardedTensor(const Tensor& part, const Mesh& mesh, const Layout& layout, const std::vector<std::string>& sums = {},
                Where where = Where::current());

  const Tensor& part() const& { return part_; }
  const Mesh& mesh() const& { return mesh_; }
  // For each axis the axis of the mesh along which it is split, or none.
  Layout layout() const;
  const std::vector<std::string>& sums() const& { return sums_; }
  // Of a temporary these are copies, for it may be gone when they are looked at.
  Tensor part() const&& { return part_; }
  Mesh mesh() const&& { return mesh_; }
  std::vector<std::string> sums() const&& { return sums_; }
  Shape shape() const;  // of the full tensor

  // The same tensor in another layout, without sums. Throws where an axis is no multiple of the ranks along its axis of the
  // mesh.
  ShardedTensor to(const Layout& layout, Where where = Where::current()) const;
  // How: nothing travels.
  std::vector<LayoutStep> plan(const Layout& layout, Where where = Where::current()) const;
  // On all ranks: to({}).
  Tensor whole(Where where = Where::current()) const { return to({}, where).part(); }

 private:
  using Cuts = std::vector<std::optional<std::string>>;
  Cuts checked(const Layout& layout, const Where& where) const;
  ShardedTensor after(const LayoutStep& step, const Where& where) const;

  Tensor part_;
  Mesh mesh_;
  Cuts cuts_;  // by axis of the tensor
  std::vector<std::string> sums_;
};

// a [..., m, k] times b [k, n]. If only one of them is split along k, the other is split likewise, which costs nothing;
// if both are, the product is a sum along that axis. If both are split along the same axis of the mesh, one along k and
// the other not, or along m and n, b is gathered first.
ShardedTensor matmul(const ShardedTensor& a, const ShardedTensor& b, Where where = Where::current());

}  // namespace rill::distribute

#pragma GCC visibility pop
