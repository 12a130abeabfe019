// Stream output of shapes, dtypes, devices and specs.
#pragma once
#include <ostream>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

inline std::ostream& operator<<(std::ostream& out, const Shape& s) { return out << to_string(s); }   // "[2,3]"
inline std::ostream& operator<<(std::ostream& out, DType d) { return out << name(d); }               // "f32"
inline std::ostream& operator<<(std::ostream& out, const Device& d) { return out << to_string(d); }  // "cpu:0"
inline std::ostream& operator<<(std::ostream& out, const Spec& s) { return out << to_string(s); }    // "f32[2,3]"

}  // namespace rill

#pragma GCC visibility pop
