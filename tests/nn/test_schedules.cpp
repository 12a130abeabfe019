// Schedules beside torch's and optax's rates, the plateau, plots.
#include "catch.h"
#include "messages.h"
#include "optimizer_paths.h"
#include "rill/nn.h"
#include "rill/rill.h"

using namespace rill;

TEST_CASE("schedules give torch's and optax's rates, eagerly and traced") {
  const std::map<std::string, nn::Schedule> all = {
      {"step_decay", nn::step_decay(0.5, 5, 0.3)},
      {"multi_step_decay", nn::multi_step_decay(0.5, {4, 9, 15}, 0.3)},
      {"polynomial_decay", nn::polynomial_decay(0.5, 20, 0, 2.5)},
      {"cosine_restarts", nn::cosine_restarts(0.5, 5, {.alpha = 0.1})},
      {"cosine_restarts doubled", nn::cosine_restarts(0.5, 3, {.multiple = 2})},
      {"one_cycle", nn::one_cycle(0.5, 24)},
      {"one_cycle lines", nn::one_cycle(0.5, 24, {.rising = 0.4, .cosine = false})},
      {"cyclic", nn::cyclic(0.1, 0.5, 4, {.falling = 3})},
      {"cyclic halved", nn::cyclic(0.1, 0.5, 4, {.cycle_factor = 0.5})},
      {"cyclic falling", nn::cyclic(0.1, 0.5, 4, {.step_factor = 0.95})},
      {"joined", nn::joined({nn::cosine_decay(0.5, 10), nn::polynomial_decay(0.2, 6, 0.1)}, {8})},
      {"warmed_up", nn::warmed_up(nn::cosine_decay(0.5, 12), 6)},
      {"warmup_stable_decay", nn::warmup_stable_decay(0.5, 4, 8, 8, 0.1)},
      {"inverse_time_decay", nn::inverse_time_decay(0.5, 4, 0.7)},
      {"noam", nn::noam(512, 8, 2)},
  };
  REQUIRE(all.size() + 1 == rates.size());
  for (const auto& [name, schedule] : all) {
    INFO(name);
    const std::vector<double>& expected = rates.at(name);
    const auto traced = function("rate", [&](const Tensor& step) { return schedule(step); });
    for (size_t i = 0; i < expected.size(); ++i) {
      INFO("step " << i);
      const Tensor rate = schedule(tensor(double(i)));
      CHECK(rate.item<double>() == Approx(expected[i]).epsilon(1e-6).margin(1e-9));
      CHECK(array_equal(rate, traced(tensor(double(i)))));
      CHECK(array_equal(rate, schedule(tensor(int64_t(i)))));
    }
  }
  CHECK(nn::constant_rate(0.5)(tensor(3.0)).item<double>() == 0.5);
}

TEST_CASE("a plateau lowers the rate as torch's does") {
  nn::SGD sgd({.learning_rate = 0.5});
  nn::Plateau plateau(sgd.learning_rate, {.factor = 0.3, .patience = 2, .cooldown = 1, .lowest = 0.02});
  const std::vector<double> metrics = {3,   2,   1.5, 1.5,  1.6, 1.55, 1.7, 1.2, 1.3, 1.3, 1.3,
                                       1.3, 1.4, 1.3, 1.25, 1.3, 1.3,  1.3, 1.3, 1.3, 1.3};
  const std::vector<double>& expected = rates.at("Plateau");
  for (size_t i = 0; i < metrics.size(); ++i) CHECK(plateau.update(metrics[i]) == Approx(expected[i]));
  CHECK(sgd.learning_rate.at(tensor(0.0)).item<double>() == Approx(expected.back()));
  CHECK(variables(plateau).contains("plateau"));
  nn::SGD scheduled({.learning_rate = nn::constant_rate(1)});
  CHECK(has(message_of([&] { nn::Plateau p(scheduled.learning_rate); }), "schedule"));
}

TEST_CASE("a schedule is plotted") {
  CHECK(nn::plot(nn::polynomial_decay(1, 4), 5, {.width = 5, .height = 3}) ==
        "        1 |*\n"
        "      0.5 | **\n"
        "        0 |   **\n"
        "          +-----\n"
        "           0   4\n");
}

TEST_CASE("options of schedules are checked") {
  const auto refused = [](auto f, const char* what) { CHECK(has(message_of(f), what)); };
  refused([] { nn::step_decay(1, 0, 0.5); }, "steps");
  refused([] { nn::multi_step_decay(1, {2, 1}, 0.5); }, "ascend");
  refused([] { nn::multi_step_decay(1e300, {1}, 1e10); }, "[multi_step_decay]");
  refused([] { nn::cosine_restarts(1, 5, {.multiple = 0.5}); }, "multiple");
  refused([] { nn::one_cycle(1, 10, {.rising = 1}); }, "rising");
  refused([] { nn::joined({nn::constant_rate(1)}, {3}); }, "1 schedules for 1 boundaries");
  refused([] { nn::warmed_up(nullptr, 3); }, "empty");
  refused([] { nn::plot(nn::constant_rate(1), 0); }, "steps");
}
