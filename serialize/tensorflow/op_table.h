// The facts about TensorFlow's operators that are needed to write them: the names of their results, by which the nodes
// of a function refer to each other, and the attributes for the dtypes of operands. From TensorFlow's registry.
#pragma once
#include <string_view>
#include <vector>

namespace rill::tensorflow_out {

struct OpForm {
  std::string_view op;
  std::string_view results;        // names, separated by spaces
  std::string_view types = "T=0";  // "T=0": the dtype of operand 0; "T>0": of result 0
};

// The form of an operator that rules write; all of those are in the table.
const OpForm& form_of(std::string_view op);
// The same for any operator: null if it is not in the table.
const OpForm* find_form(std::string_view op);
std::vector<std::string_view> result_names(const OpForm& form);
// The name by which a node of a function refers to result `i` of another: "z:0".
std::string_view result_name(const OpForm& form, size_t i, size_t& index);

}  // namespace rill::tensorflow_out
