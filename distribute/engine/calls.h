// How each collective runs: ranks agree on the call, and data moves. Its records, derivatives and functions are in
// collectives.cpp.
#pragma once
#include <memory>
#include <string>

#include "rill/distribute/collectives.h"
#include "rill/ops/op.h"
#include "rill/tensor/callback.h"

namespace rill::distribute {

// Attributes of all: the group, and for how many ranks the call was made. The line is no field: files and texts need not have it.
struct GroupAttrs {
  Dims ranks;
  int64_t size = 1;
  std::string place = {};
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("ranks", s.ranks);
    v("size", s.size);
  }
};

struct ReduceAttrs : GroupAttrs {
  Reduce reduce = Reduce::sum;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    GroupAttrs::fields(s, v);
    v("reduce", s.reduce);
  }
};

struct RootAttrs : GroupAttrs {
  int64_t root = 0;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    GroupAttrs::fields(s, v);
    v("root", s.root);
  }
};

// to[i]: where rank i's tensor goes, or -1.
struct PermuteAttrs : GroupAttrs {
  Dims to;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    GroupAttrs::fields(s, v);
    v("to", s.to);
  }
};

struct ReceiveAttrs : GroupAttrs {
  int64_t from = 0;
  Dims shape;
  DType dtype = DType::f32;
  Device device = {};  // the result's device; not a field, for it is local to this process
  template <class S, class V>
  static void fields(S& s, V&& v) {
    GroupAttrs::fields(s, v);
    v("from", s.from);
    v("shape", s.shape);
    v("dtype", s.dtype);
  }
};

class Moving;

// An all_reduce whose data moves while the program continues.
class Begun {
 public:
  Begun() = default;
  // The result; waits for it.
  Tensor wait() const;
  // Advances all that have begun, for nothing else does while this rank computes.
  static void advance();

 private:
  friend Begun begin_all_reduce(const Tensor& x, const ReduceAttrs& attrs);
  std::shared_ptr<Moving> moving_;
};
// x is dense, and must not be written to. Ranks agree on the call here.
Begun begin_all_reduce(const Tensor& x, const ReduceAttrs& attrs);
// The rest of a collective that has begun: returns its result, once.
using Rest = Callback<Tensor()>;
// Ranks agree on the call here, of the collective whose record has this name: all_reduce, all_reduce_by, all_gather,
// reduce_scatter, broadcast, all_to_all or permute_ranks, with its attributes.
Rest begin(std::string_view name, const Tensor& x, AttrsView attrs);
// A dense tensor of the same elements, on its own.
Tensor dense(const Tensor& t);
// The tensor itself if it is on the host, else a copy there; and on another device.
Tensor on_host(const Tensor& t);
Tensor moved_to(const Tensor& t, Device d);
// The attributes of a call from here.
template <class A>
A with_group(A attrs, const Group& group, const Where& where) {
  attrs.ranks = group.ranks(), attrs.size = group.size(where), attrs.place = place_of(where);
  return attrs;
}

// Tensors of the records' operands, in their order.
Tensors call_all_reduce(Operands in, AttrsView attrs);
Tensors call_reduce_scatter(Operands in, AttrsView attrs);
Tensors call_all_gather(Operands in, AttrsView attrs);
Tensors call_broadcast(Operands in, AttrsView attrs);
Tensors call_scatter(Operands in, AttrsView attrs);
Tensors call_gather(Operands in, AttrsView attrs);
Tensors call_all_to_all(Operands in, AttrsView attrs);
Tensors call_permute(Operands in, AttrsView attrs);
Tensors call_send(Operands in, AttrsView attrs);
Tensors call_receive(Operands in, AttrsView attrs);
Tensors call_barrier(Operands in, AttrsView attrs);

}  // namespace rill::distribute
