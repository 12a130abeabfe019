// Unique names, for code that writes down objects with arbitrary names.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace rill {

class UniqueNames {
 public:
  // `wanted`, or, if that is taken, with a number appended: "w", then "w_1", "w_2".
  std::string add(const std::string& wanted) {
    if (names_.insert(wanted).second) return wanted;
    std::string name;
    for (int& last = last_[wanted]; name.empty() || !names_.insert(name).second;)
      name = wanted + "_" + std::to_string(++last);
    return name;
  }
  // False if it is taken.
  bool take(const std::string& name) { return names_.insert(name).second; }
  void give_back(const std::string& name) { names_.erase(name); }
  bool has(const std::string& name) const { return names_.contains(name); }

 private:
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> last_;  // the number appended last: trying all from 1 again
                                               // would take quadratic time
};

}  // namespace rill
