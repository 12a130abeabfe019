// A Mesh: the ranks as an array with named axes, and tensors that are split along some of them.
//
//   distribute::Mesh mesh({{"data", 2}, {"model", 4}});                  // 8 ranks
//   Tensor part = distribute::shard(w, mesh, {none, "model"});           // a quarter of w's columns
//   Tensor whole = distribute::gather(part, mesh, {none, "model"});
//   Tensor sum = distribute::all_reduce(part, Reduce::sum, mesh.group("data"));
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "rill/distribute/collectives.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
};

class Mesh {
 public:
  // Rank 0 is at the beginning of all axes, and the last axis moves fastest. Throws unless the sizes' product is the
  // number of ranks, and the names differ.
  Mesh(std::initializer_list<MeshAxis> axes, Where where = Where::current())
      : Mesh(std::vector<MeshAxis>(axes), where) {}
  explicit Mesh(std::vector<MeshAxis> axes, Where where = Where::current());
  // A move is a copy, so that what was moved from is whole.
  Mesh(const Mesh&) = default;
  Mesh& operator=(const Mesh&) = default;

  // In order.
  const std::vector<MeshAxis>& axes() const& { return axes_; }
  std::vector<MeshAxis> axes() const&& { return axes_; }
  // How many ranks there are along an axis, and where this one is. Each throws where there is no such axis.
  int64_t size(const std::string& axis, Where where = Where::current()) const;
  int64_t rank(const std::string& axis, Where where = Where::current()) const;
  // The ranks that differ from this one only along this axis, in its order, including this one.
  Group group(const std::string& axis, Where where = Where::current()) const;

 private:
  size_t find(const std::string& axis, const Where& where) const;
  int64_t stride(size_t axis) const;
  std::vector<MeshAxis> axes_;
};

// For each axis of a tensor, the axis of the mesh along which it is split, or none: {"data", none}. Axes that are left
// out at the end are not split.
class Layout {
 public:
  struct Along {
    Along(const char* axis) : axis(axis) {}
    Along(std::string axis) : axis(std::move(axis)) {}
    Along(std::nullopt_t) {}
    std::optional<std::string> axis;
  };
  Layout(std::initializer_list<Along> axes) : axes_(axes) {}
  explicit Layout(std::vector<Along> axes) : axes_(std::move(axes)) {}
  // A move is a copy: one that was moved from would cut nothing.
  Layout(const Layout&) = default;
  Layout& operator=(const Layout&) = default;
  const std::vector<Along>& axes() const& { return axes_; }
  std::vector<Along> axes() const&& { return axes_; }

 private:
  std::vector<Along> axes_;
};

// This rank's part of x, which is complete on all ranks. Throws if an axis is not a multiple of the ranks along its
// mesh axis, and if the layout names more axes than there are, or one twice.
Tensor shard(const Tensor& x, const Mesh& mesh, const Layout& layout, Where where = Where::current());
// The full tensor of which each rank has such a part, on every rank.
Tensor gather(const Tensor& x, const Mesh& mesh, const Layout& layout, Where where = Where::current());

}  // namespace rill::distribute

#pragma GCC visibility pop
