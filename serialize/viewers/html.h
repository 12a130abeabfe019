// A graph as a page that a browser opens, with what a profile measured of it where there is one.
#pragma once
#include <map>

#include "rill/trace/graph.h"

namespace rill {

// `seconds`: of nodes of `g`, by their numbers.
std::string html_page(const Graph& g, const std::map<int32_t, double>& seconds);

}  // namespace rill
