// Attributes of the elementwise ops that have any.
#pragma once
#include "rill/devices/params/attrs.h"

#pragma GCC visibility push(default)

namespace rill {

struct CastAttrs {
  DType dtype = DType::f32;
  bool weak = false;  // a C++ number stays one, with the lowest priority in promotion
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("dtype", s.dtype);
    if (s.weak) v("weak", s.weak);
  }
};

struct TransferAttrs {
  std::string device;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("device", s.device);
  }
};

// The name of a value for recompute().
struct NameAttrs {
  std::string name;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("name", s.name);
  }
};

}  // namespace rill

#pragma GCC visibility pop
