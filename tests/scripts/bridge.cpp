// A library that Python loads (test_numpy.py, test_torch.py): tensors go in and out by DLPack, and come out as text.
// Every function that may fail gives null then, and bridge_error() says why.
#include <rill/rill.h>

#include <string>

using namespace rill;

namespace {

std::string error, said;

template <class F>
auto guarded(F&& f) -> decltype(f()) {
  error.clear();
  try {
    return f();
  } catch (const std::exception& e) {
    error = e.what();
    return nullptr;
  }
}

DLPackOptions with_copy(int copy) {
  DLPackOptions options;
  if (copy >= 0) options.copy = copy != 0;
  return options;
}

}  // namespace

extern "C" {

const char* bridge_error() { return error.c_str(); }

// A tensor over what a capsule points to; `copy` is -1 for the default.
Tensor* bridge_take(void* managed, int versioned, int copy) {
  return guarded([&] {
    const DLPackOptions options = with_copy(copy);
    return new Tensor(versioned ? from_dlpack(static_cast<DLManagedTensorVersioned*>(managed), options)
                                : from_dlpack(static_cast<DLManagedTensor*>(managed), options));
  });
}
void* bridge_give(const Tensor* t, int versioned, int copy) {
  return guarded([&]() -> void* {
    const DLPackOptions options = with_copy(copy);
    if (versioned) return to_dlpack(*t, options);
    return to_dlpack_unversioned(*t, options);
  });
}
void bridge_drop(Tensor* t) { delete t; }

// x + x, and x with each kind of view that numpy has: transposed, every other element, reversed.
Tensor* bridge_twice(const Tensor* t) {
  return guarded([&] { return new Tensor(*t + *t); });
}
Tensor* bridge_view(const Tensor* t, const char* kind) {
  return guarded([&]() -> Tensor* {
    const std::string k = kind;
    if (k == "T") return new Tensor(t->T());
    if (k == "[::2]") return new Tensor((*t)(slice(none, none, 2)));
    return new Tensor((*t)(slice(none, none, -1)));
  });
}
// An update of a part, which would be written in place if the memory were rill's own.
Tensor* bridge_update(Tensor* t) {
  return guarded([&] { return new Tensor(std::move(*t).at(0).set(7)); });
}

const char* bridge_text(const Tensor* t) {
  return guarded([&] {
    said = to_string(*t);
    return said.c_str();
  });
}
const char* bridge_text_with(const Tensor* t, int precision, int64_t threshold, int64_t edge_items, int64_t line_width,
                             int suppress, char sign, int float_mode) {
  return guarded([&] {
    said = to_string(*t, {.precision = precision,
                          .threshold = threshold,
                          .edge_items = edge_items,
                          .line_width = line_width,
                          .suppress = suppress != 0,
                          .sign = sign,
                          .float_mode = FloatMode(float_mode)});
    return said.c_str();
  });
}
}
