// Calls of ops as files hold them: a record by its name, and its attributes as names and values.
#pragma once
#include <string>

#include "rill/devices/params/read_attrs.h"
#include "rill/ops/op.h"

#pragma GCC visibility push(default)

namespace rill {

// The record called `name` that a traced graph may hold, markers among them; null where there is none. Those that only
// passes make are none.
const Op* find_stored_op(std::string_view name);
// The end of an error about an op that is not there: ". librill_ops ... cannot be opened: " and why, or "" where it was.
std::string missing_ops();

// The struct of its attributes, or null where it has none. Throws rill::Error for a record without samples, and for a
// struct that is not known (ReadableAttrs). Not for control flow, whose attributes hold graphs.
const AttrsType* attributes_of(const Op& op);

// The attributes of `op` from names and values: the inverse of list_of(). `operand`: the dtype of the call's first
// operand. Throws rill::Error where they are not what the op has.
Attrs read_attrs(const Op& op, const AttrList& list, DType operand, const ReadDim& read_dim);

// Throws rill::Error where `op` could not be called on such operands: their number, dtype, devices; then infers.
OutSpecs checked_infer(const Op& op, std::span<const Spec* const> in, AttrsView attrs);

}  // namespace rill

#pragma GCC visibility pop
