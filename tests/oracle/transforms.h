// Cases of functions of functions (generate.py's transforms.py): a function of the table under jvp, vjp, jacfwd, ...
#pragma once
#include <string>
#include <vector>

#include "cases.h"

namespace oracle {

// jvp, vjp, jacfwd, ...: those with expected results in the case.
std::vector<std::string> transforms_of(const Case& c);
const std::vector<Expected>& expected_of(const Case& c, const std::string& transform);
// All tensors that a transform takes: the operands, tangents, cotangents, and rows of them.
Values arguments_of(const Case& c);
// Its results, in the order of the case's results and operands.
Values transformed(const Case& c, const Entry& entry, const std::string& transform, const Values& arguments);

}  // namespace oracle
