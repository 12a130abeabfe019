// Small work stays on the calling thread while the cores are taken by others: when, and for how long.
#include "catch.h"
#include "rill/devices/crowding.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {
constexpr int64_t ms = 1'000'000;
}

TEST_CASE("one late thread is no sign, several soon after each other are") {
  Crowding c;
  CHECK_FALSE(c.possible());
  c.saw(1000 * ms, 3 * ms);
  CHECK_FALSE(c.possible());
  c.saw(1500 * ms, 3 * ms);  // long after
  CHECK_FALSE(c.possible());
  c.saw(1503 * ms, 3 * ms);
  CHECK(c.possible());
  CHECK(c.now(1503 * ms));
  CHECK(c.now(1522 * ms));
  CHECK_FALSE(c.now(1524 * ms));
}

TEST_CASE("it lasts longer where it was so again, and ends where nobody was late") {
  Crowding c;
  int64_t time = 1000 * ms, last = 0;
  c.saw(time, ms);
  for (int i = 0; i < 10; ++i) {
    c.saw(++time, ms);
    int64_t length = 0;
    while (c.now(time)) time += ms, length += ms;
    CHECK(length >= last);
    CHECK(length <= 330 * ms);
    last = length;
  }
  CHECK(last > 300 * ms);
  int tries = 0;
  for (; c.possible(); ++tries) c.saw(++time, 1000);
  CHECK(tries <= 4);
}

TEST_CASE("a region that was not late says nothing before the time is over") {
  Crowding c;
  c.saw(1000 * ms, ms), c.saw(1001 * ms, ms);
  c.saw(1002 * ms, 1000);
  CHECK(c.now(1003 * ms));
}

TEST_CASE("a region of which nobody knows says nothing") {
  Crowding c;
  c.saw(1000 * ms, ms), c.saw(1001 * ms, -1), c.saw(1002 * ms, ms);
  CHECK(c.now(1003 * ms));
  c.saw(1100 * ms, -1);  // nor that it is over
  CHECK(c.possible());
}

// What oneDNN gets may then have one thread or several from call to call, so that must not show.
TEST_CASE("products that may stay on one thread have the bits that several threads give") {
  const int before = num_threads();
  for (int64_t k : {64, 200, 512, 1000, 1024})
    for (int64_t m : {16, 32, 100, 256})
      for (int64_t n : {128, 200, 512}) {
        INFO(m << " x " << k << " by " << k << " x " << n);
        const Tensor a = random::normal({m, k}, {.key = random::Key(1)}),
                     b = random::normal({k, n}, {.key = random::Key(2)});
        const Tensor turned = random::normal({n, k}, {.key = random::Key(3)});
        std::vector<Tensor> plain, transposed;
        for (int threads : {1, 2, 5}) {
          set_num_threads(threads);
          plain.push_back(matmul(a, b));
          transposed.push_back(matmul(a, transpose(turned)));
        }
        for (size_t i = 1; i < plain.size(); ++i) {
          CHECK(same(plain[0], plain[i]));
          CHECK(same(transposed[0], transposed[i]));
        }
      }
  set_num_threads(before);
}
