// Stages and roots of unity of a length, and the cache of plans; see fft_plan.h. Start at fft_plan.
#include "rill/devices/cpu/fourier/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <numbers>

#include "rill/devices/cpu/fourier/fft_long.h"
#include "rill/devices/cpu/fourier/fft_stages.h"
#include "rill/devices/host_memory.h"
#include "rill/devices/threads.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::cpu {
namespace {

// cos and -sin of 2 pi k / n, correctly rounded: the angle is reduced to the first eighth of the circle.
template <class R>
void root_of_unity(int64_t k, int64_t n, R& re, R& im) {
  using Wide = std::conditional_t<std::is_same_v<R, float>, double, long double>;
  k %= n;
  const bool below = 2 * k > n;  // the conjugate of that of n - k
  if (below) k = n - k;
  const bool mirrored = 4 * k > n;                            // mirrored: that of n / 2 - k
  const int64_t quarters = mirrored ? 2 * n - 4 * k : 4 * k;  // in units of 1 / (4 n) of the circle
  const bool steep = 2 * quarters > n;
  const Wide angle = std::numbers::pi_v<Wide> / 2 * Wide(steep ? n - quarters : quarters) / Wide(n);
  const Wide near = std::cos(angle), far = std::sin(angle);
  const Wide c = steep ? far : near, s = steep ? near : far;
  re = R(mirrored ? -c : c);
  im = R(below ? s : -s);
}

// The radices of a length, few large ones rather than many; empty if one of its prime factors is too large.
std::vector<int64_t> radices(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t r : {16, 8, 4, 2, 3, 5, 7, 11, 13})
    for (; n % r == 0 && !(r >= 8 && n / r % 4 == 2); n /= r) out.push_back(r);  // 32 is 8 times 4, not 16 times 2
  if (n != 1) out.clear();
  return out;
}

// The largest divisor of n that is at most its square root, and short enough for fft_lines.h.
int64_t short_side(int64_t n) {
  int64_t d = std::min(long_line - 1, int64_t(std::sqrt(double(n))));
  while (n % d != 0) --d;
  return d;
}

// The least length of 2^a or 2^a 3 that is at least n.
int64_t good_length(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power >= 4 && power / 4 * 3 >= n ? power / 4 * 3 : power;
}

}  // namespace

template <class R>
FftPlan<R>::FftPlan(int64_t n) : n(n) {
  const std::vector<int64_t> factors = radices(n);
  if (n > 1 && factors.empty()) {
    make_convolution();
    return;
  }
  if (n < long_line) {
    make_stages(factors);
    return;
  }
  rows = fft_plan<R>(n / short_side(n)), columns = fft_plan<R>(short_side(n));
  turns_re.resize(size_t(n)), turns_im.resize(size_t(n));
  parallel_for(columns->n, std::max<int64_t>(1, 4096 / rows->n), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      for (int64_t j = 0; j < rows->n; ++j) {
        const size_t at = size_t(k * rows->n + j);
        root_of_unity(j * k, n, turns_re[at], turns_im[at]);
      }
  });
}

template <class R>
void FftPlan<R>::make_stages(const std::vector<int64_t>& factors) {
  int64_t left = n, s = 1;
  for (int64_t r : factors) {
    const int64_t m = left / r;
    stages.push_back({r, m, s, roots.size()});
    for (int64_t p = 0; p < m; ++p)
      for (int64_t k = 1; k < r; ++k) {
        roots.resize(roots.size() + 2);
        root_of_unity(p * k, left, roots[roots.size() - 2], roots[roots.size() - 1]);
      }
    left = m;
    s *= r;
  }
}

template <class R>
void FftPlan<R>::make_convolution() {
  convolution = fft_plan<R>(good_length(2 * n - 1));
  const size_t length = size_t(convolution->n);
  chirp_re.resize(size_t(n)), chirp_im.resize(size_t(n));
  filter_re.resize(length), filter_im.resize(length);
  parallel_for(n, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const size_t at = size_t(k);
      // k^2 modulo 2 n, without overflow.
      root_of_unity(int64_t(__int128(k) * k % (2 * n)), 2 * n, chirp_re[at], chirp_im[at]);
      filter_re[at] = chirp_re[at] / R(length), filter_im[at] = -chirp_im[at] / R(length);
      if (k > 0) filter_re[length - at] = filter_re[at], filter_im[length - at] = filter_im[at];
    }
  });
  std::vector<R> work(2 * length);
  if (!convolution->is_long()) {
    R *re = work.data(), *im = re + length;
    if (run_stages(*convolution, 1, filter_re.data(), filter_im.data(), re, im))
      std::copy_n(re, length, filter_re.data()), std::copy_n(im, length, filter_im.data());
    return;
  }
  join_pairs(filter_re.data(), filter_im.data(), R(1), int64_t(length), work.data());
  transform_long(*convolution, false, R(1), {work.data(), 1}, {work.data(), 1});
  split_pairs(work.data(), int64_t(length), filter_re.data(), filter_im.data());
}

template <class R>
RealTurns<R>::RealTurns(int64_t n) : n(n), re(size_t(n / 4 + 1)), im(size_t(n / 4 + 1)) {
  for (int64_t k = 0; k <= n / 4; ++k) root_of_unity(k, n, re[size_t(k)], im[size_t(k)]);
}

namespace {

// The T of each length, cached for the lengths used last. Never destroyed: threads may outlive static objects.
template <class T>
class Kept {
 public:
  static Kept& all() {
    static Kept& kept = *[] {
      host_memory::add_cache({[] { return all().bytes(); }, [] { all().clear(); }});
      return new Kept;
    }();
    return kept;
  }

  std::shared_ptr<const T> get(int64_t n) {
    {
      const std::lock_guard hold(lock_);
      for (auto p = known_.begin(); p != known_.end(); ++p)
        if ((*p)->n == n) {
          known_.splice(known_.begin(), known_, p);
          return known_.front();
        }
    }
    auto plan = std::make_shared<const T>(n);
    const std::lock_guard hold(lock_);
    known_.push_front(plan);
    size_t numbers = count();
    while (known_.size() > most || (known_.size() > 1 && numbers > most_numbers)) {
      numbers -= known_.back()->size();
      known_.pop_back();
    }
    return plan;
  }
  size_t bytes() {
    const std::lock_guard hold(lock_);
    return count() * sizeof(typename T::Number);
  }
  void clear() {
    const std::lock_guard hold(lock_);
    known_.clear();
  }

 private:
  static constexpr size_t most = 16, most_numbers = 1 << 24;
  size_t count() const {
    size_t numbers = 0;
    for (const auto& x : known_) numbers += x->size();
    return numbers;
  }
  ForkMutex lock_;
  std::list<std::shared_ptr<const T>> known_;  // most recently used first
};

}  // namespace

template <class R>
std::shared_ptr<const FftPlan<R>> fft_plan(int64_t n) {
  return Kept<FftPlan<R>>::all().get(n);
}
template <class R>
std::shared_ptr<const RealTurns<R>> real_turns(int64_t n) {
  return Kept<RealTurns<R>>::all().get(n);
}

template struct FftPlan<float>;
template struct FftPlan<double>;
template std::shared_ptr<const FftPlan<float>> fft_plan<float>(int64_t n);
template std::shared_ptr<const FftPlan<double>> fft_plan<double>(int64_t n);
template std::shared_ptr<const RealTurns<float>> real_turns<float>(int64_t n);
template std::shared_ptr<const RealTurns<double>> real_turns<double>(int64_t n);

}  // namespace rill::cpu
