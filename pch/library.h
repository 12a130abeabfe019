// What most sources of the library include from elsewhere, compiled once where a build is not optimised: reading it
// takes half the time there. Sources include it themselves as well, and an optimised build, which does without this
// header, shows that they do. Nothing of rill stands here, for what a source does not ask for must not change what it
// means.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>
