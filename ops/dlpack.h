// Tensors to and from other libraries of this process (numpy, torch, JAX, CuPy, ...) without a copy, by DLPack: the
// structure that arr.__dlpack__() puts into a capsule. https://dmlc.github.io/dlpack says what is in it; a program that
// looks inside includes dlpack.h itself, for here the names are enough.
#pragma once
#include <optional>

#include "rill/tensor/tensor.h"

struct DLManagedTensor;           // of DLPack before 1.0: the capsule "dltensor"
struct DLManagedTensorVersioned;  // since 1.0: the capsule "dltensor_versioned"

#pragma GCC visibility push(default)

namespace rill {

struct DLPackOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // Whether the elements are copied: always, or never (then what cannot be shared throws). none: only where they must
  // be.
  std::optional<bool> copy = {};
};

// `x` for another library, which calls the structure's `deleter` when it is done; the elements live until then,
// whatever becomes of `x`. Strided views stay views. The memory is shared and flagged as read-only, since tensors never
// change; a copy may be written to, and is flagged as one. Of any dtype but string. Throws while tracing. A
// GPU's memory is shared as CUDA memory; all that was begun there has ended when this returns.
DLManagedTensorVersioned* to_dlpack(const Tensor& x, const DLPackOptions& options = {}, Where where = Where::current());
// The same for a library that knows no DLPack 1.0. That structure cannot say that the memory is read-only, so the
// elements are copied, unless options.copy is false: then the reader must not write.
DLManagedTensor* to_dlpack_unversioned(const Tensor& x, const DLPackOptions& options = {},
                                       Where where = Where::current());

// A tensor over the memory of another library, which is given back (its `deleter` is called) when the last tensor that
// reads it is gone; with options.copy, at once. rill never writes there; the other library should not either, as
// from_buffer() says. A GPU's elements must be there already: streams of others
// are not waited for. Throws for memory of devices that are not here, dtypes that rill lacks, a structure of DLPack 2
// or later, and what from_buffer() does not take; then the structure is still the caller's.
Tensor from_dlpack(DLManagedTensorVersioned* tensor, const DLPackOptions& options = {}, Where where = Where::current());
Tensor from_dlpack(DLManagedTensor* tensor, const DLPackOptions& options = {}, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
