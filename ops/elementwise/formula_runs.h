// The loops of formulas (formulas.cpp), which run where nobody looks at the ops. For ops/*.cpp only.
#pragma once
#include <initializer_list>

#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/tensor/tensor.h"

namespace rill::elementwise {

// The loops' result for operands of one real dtype that nobody watches, bools with `tests`; else an undefined tensor.
Tensor run_formula(const cpu::ScalarLoops& loops, std::initializer_list<const Tensor*> operands, bool tests = false);

// The same of a floating x and a constant, which is no half where x is one: so halves are rounded once.
Tensor run_formula(const cpu::ScalarLoops& loops, const Tensor& x, double constant);

}  // namespace rill::elementwise
