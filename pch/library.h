// What most sources of the library include from elsewhere, compiled once: a quarter of the time that an optimised
// object takes, half of one that is not. Sources include it themselves as well, which a build with -Db_pch=false shows
// (.ci/run has one). Nothing of rill stands here, for what a source does not ask for must not change what it means.
// gcc 12 forgets a precompiled header's pragmas: what they silence is silenced in meson.build.
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
