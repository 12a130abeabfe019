// See ranks.h.
#include "rill/train/ranks.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <random>
#include <thread>

#include "rill/distribute/collectives.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/serialize/checkpoint_manager.h"

namespace rill::train {

SaveCheckpointOptions written_by_all(SaveCheckpointOptions options, const distribute::Group& group, Where where) {
  CallerScope caller(where, "train::written_by_all");
  options.part.index = int(group.rank(where)), options.part.count = int(group.size(where));
  if (options.part.index < 0) fail("train::written_by_all", "this rank is none of the group's", where);
  std::random_device device;
  const Tensor number = tensor({int64_t(device()) << 31 ^ int64_t(device())});
  options.part.run = uint64_t(distribute::broadcast(number, 0, group, where).item<int64_t>());
  return options;
}

int64_t follow_checkpoints(const std::string& folder, const std::function<void(const std::string&, int64_t)>& f,
                           const FollowOptions& options, Where where) {
  using Clock = std::chrono::steady_clock;
  constexpr std::string_view op = "train::follow_checkpoints";
  if (!(options.every_seconds > 0))
    fail(op, fmt::format("every_seconds is {} and must be positive", options.every_seconds), where);
  int64_t count = 0;
  std::string last;
  for (Clock::time_point came = Clock::now();;) {
    const bool ends = options.until && options.until();  // before the last look
    const std::string latest = latest_checkpoint(folder, where);
    if (!latest.empty() && latest != last) {
      int64_t step = -1;
      std::from_chars(latest.data() + latest.find_last_of('-') + 1, latest.data() + latest.size(), step);
      f(latest, step);
      ++count, last = latest, came = Clock::now();
      if (options.last_step > 0 && step >= options.last_step) return count;
      continue;
    }
    const double waited = std::chrono::duration<double>(Clock::now() - came).count();
    if (ends || (options.timeout_seconds > 0 && waited > options.timeout_seconds)) return count;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.every_seconds));
  }
}

}  // namespace rill::train
