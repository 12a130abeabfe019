// Cases of test_distribute.py in which each rank has a simulated GPU, and GPUs exchange tensors by the simulated NCCL
// (cuda/simulated/nccl.cpp): the bits must be the host's, whoever adds.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>

#include "cases.h"

namespace {

const Device host("cpu:0"), gpu("gpu:0");

// What the simulated libraries tell tests.
template <class F>
F* told(const char* library, const char* name) {
  void* opened = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  auto* f = opened ? reinterpret_cast<F*>(dlsym(opened, name)) : nullptr;
  EXPECT(f);
  return f;
}
long calls(const char* name) { return told<long(const char*)>("libnccl.so.2", "rill_simulated_nccl_count")(name); }
long waits() { return told<long()>("libcuda.so.1", "rill_simulated_waits")(); }
void fail_next_group(int result) { told<void(int, int)>("libnccl.so.2", "rill_simulated_nccl_fail")(1, result); }

using F = std::function<Tensor(const Tensor&)>;

// On the GPU, eagerly and traced, as on the host.
bool same_there(const F& f, const Tensor& x) {
  const Tensor want = f(x), is = f(x.to(gpu));
  bool all = is.device() == gpu && same(is.to(host), want);
  auto traced = function("traced", f);
  for (int i = 0; i < 2; ++i, jit::wait()) all = all && same(traced(x.to(gpu)).to(host), want);
  return all;
}

void device_dtypes() {
  const WithDevice here(host);
  for (const DType d : {i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, c64, c128}) {
    // Parts that are not of one length, and some ranks with none.
    for (const Shape& shape : {Shape{2 * n, 37}, Shape{n, 1}}) {
      const Tensor x = (own(shape, me) * 9.0).astype(d);
      const auto by = [](Reduce r) { return [r](const Tensor& v) { return distribute::all_reduce(v, r); }; };
      EXPECT(same_there(by(Reduce::sum), x) && same_there(by(Reduce::product), x));
      if (!is_complex(d)) EXPECT(same_there(by(Reduce::max), x) && same_there(by(Reduce::min), x));
      if (is_differentiable(d)) EXPECT(same_there(by(Reduce::mean), x));
      EXPECT(same_there([](const Tensor& v) { return distribute::reduce_scatter(v); }, x));
      EXPECT(same_there([](const Tensor& v) { return distribute::all_gather(v); }, x));
      EXPECT(same_there([](const Tensor& v) { return distribute::all_to_all(v); }, x));
    }
  }
  const Tensor nan = tensor({me == n - 1 ? NAN : 1.f, me == 0 ? -0.f : 0.f, 2.f});
  EXPECT(same_there([](const Tensor& v) { return isnan(distribute::all_reduce(v, Reduce::max)); }, nan));
  EXPECT(same_there([](const Tensor& v) { return distribute::all_reduce(v, Reduce::max)(slice(1, 3)); }, nan));
  const Tensor flags = tensor({me == 0, me == 1});
  EXPECT(same_there([](const Tensor& v) { return distribute::broadcast(v, n - 1); }, flags));
}

void collectives() {
  const WithDevice here(host);
  for (const Shape& shape : {Shape{n, 3}, Shape{n, 0}, Shape{n, 40000}}) {
    const Tensor x = own(shape, me);
    EXPECT(same_there([](const Tensor& v) { return distribute::broadcast(v, n - 1); }, x));
    EXPECT(same_there([](const Tensor& v) { return distribute::scatter(v, n - 1); }, x));
    EXPECT(same_there([](const Tensor& v) { return distribute::gather(v, n - 1); }, x));
    EXPECT(same_there([](const Tensor& v) { return distribute::all_to_all(v); }, x));
    EXPECT(same_there([](const Tensor& v) { return distribute::rotate(v, 2); }, x));
    EXPECT(same_there([](const Tensor& v) { return distribute::permute(v, {{0, n - 1}}); }, x));
    EXPECT(same_there([](const Tensor& v) { return distribute::all_reduce(transpose(v)); }, x));
  }
  EXPECT(same_there([](const Tensor& v) { return distribute::mean(v); }, tensor(float(me))));
  // Groups: pairs, and all of them backward.
  const int64_t first = me / 2 * 2;
  const Group pair(first + 1 < n ? std::vector<int64_t>{first, first + 1} : std::vector<int64_t>{first});
  std::vector<int64_t> backward;
  for (int64_t r = n; r-- > 0;) backward.push_back(r);
  const Tensor x = own({5}, me);
  EXPECT(same_there([&](const Tensor& v) { return distribute::all_reduce(v, Reduce::sum, pair); }, x));
  EXPECT(same_there([&](const Tensor& v) { return distribute::all_gather(v, Group(backward)); }, x));
}

// Nothing waits for the GPU, and what has begun comes after what the stream was given before.
void streams() {
  if (n == 1) return;
  const WithDevice here(gpu);
  Tensor x = own({n, 300}, me);
  distribute::all_reduce(x);  // the group is made
  const long before = waits(), sends = calls("ncclSend"), gathers = calls("ncclAllGather");
  Tensor y = x;
  for (int i = 0; i < 8; ++i) y = distribute::all_reduce(tanh(y) * 0.5) + distribute::rotate(y);
  Tensor z = distribute::all_gather(y);
  EXPECT(waits() == before);
  EXPECT(calls("ncclSend") > sends && calls("ncclAllGather") == gathers + 1);
  const WithDevice there(host);
  Tensor want = x.to(host);
  for (int i = 0; i < 8; ++i) want = distribute::all_reduce(tanh(want) * 0.5) + distribute::rotate(want);
  EXPECT(same(z.to(host), distribute::all_gather(want)));
}

void two_ranks() {
  for (const int64_t length : {3, 5000}) {  // the first goes with the ranks' notes
    const long sends = calls("ncclSend");
    for (const Device to : {gpu, host})
      for (const Device from : {gpu, host}) {
        const WithDevice here(me == 1 ? to : from);
        const Tensor x = own({length}, 0);
        if (me == 0 && n > 1) EXPECT(same(distribute::send(x, 1), x));
        if (me != 1) continue;
        const Tensor y = distribute::receive({length}, f32, 0);
        EXPECT(y.device() == to && same(y.to(host), own({length}, 0).to(host)));
      }
    if (me == 0 && n > 1) EXPECT(calls("ncclSend") - sends == (length > 3 ? 1 : 0));
  }
}

void begun() {
  const WithDevice here(gpu);
  const Tensor x = own({n, 500}, me);
  distribute::Pending sum = distribute::start_all_reduce(x), parts = distribute::start_reduce_scatter(x);
  distribute::Pending all = distribute::start_all_gather(x), ring = distribute::start_rotate(x);
  distribute::start_all_reduce(x).drop();
  const Tensor meanwhile = tanh(x) * 2.0;
  EXPECT(same(ring.wait(), distribute::rotate(x)) && same(all.wait(), distribute::all_gather(x)));
  EXPECT(same(parts.wait(), distribute::reduce_scatter(x)) && same(sum.wait(), distribute::all_reduce(x)));
  EXPECT(same(meanwhile, tanh(x) * 2.0));
}

// Training there has the weights of training here: buckets, unused parameters, halves on the way.
void tapes() {
  const auto weights = [](Device d, const distribute::TapeOptions& options, bool traced) {
    const WithDevice here(d);
    Variable a(own({7, 5}, 1), "a"), b(own({5}, 2), "b"), unused(own({3}, 3), "c");
    const Tensor x = own({4, 7}, 10 + me);
    const auto step = [&] {
      distribute::GradientTape tape(options);
      const Tensor loss = sum(square(x * sum(a.value()) + sum(b.value() * b.value())));
      const std::vector<Tensor> g = tape.gradient(loss, {a, b, unused}, {.unconnected = Unconnected::zero});
      const double rate = 1.0 / 1024;
      a.assign(a - g[0] * rate), b.assign(b - g[1] * rate);
      return loss;
    };
    auto f = function("step", step);
    for (int i = 0; i < 3; ++i, jit::wait()) traced ? f() : step();
    return concat({a.value().reshape({-1}), b.value()}).to(host);
  };
  for (const auto& options : {distribute::TapeOptions{}, distribute::TapeOptions{.bucket_bytes = 16},
                              distribute::TapeOptions{.bucket_bytes = 64, .compress = bf16}}) {
    const Tensor there = weights(gpu, options, false);
    EXPECT(same(weights(gpu, options, true), there));
    EXPECT(distribute::is_same(there));
    const distribute::TapeOptions plain{.bucket_bytes = 1 << 20, .compress = options.compress};
    EXPECT(same(weights(gpu, plain, false), there));
  }
}

// Parts of parameters on each rank: the bits of a tape's.
void zero() {
  const WithDevice here(gpu);
  const auto trained = [](int stage) {
    random::seed(1);
    std::vector<nn::Dense> layers;
    for (int i = 0; i < 2; ++i) layers.emplace_back(6, nn::DenseOptions{.activation = tanh});
    for (const nn::Dense& layer : layers) nn::build(layer, spec(f32, {any, 6}));
    distribute::broadcast(layers);
    const Tensor x = own({4, 6}, me), y = own({4, 6}, 50 + me);
    nn::SGD sgd({.learning_rate = 0.125});
    if (stage == 0) {
      for (int i = 0; i < 2; ++i) {
        distribute::GradientTape tape;
        const Tensor loss = mean_squared_error(layers[1](layers[0](x)), y);
        sgd.minimize(loss, tape, variables(layers).values());
      }
    } else {
      distribute::Shards shards(layers, {.stage = stage});
      for (int i = 0; i < 2; ++i) {
        rill::GradientTape tape;
        const Tensor loss = mean_squared_error(shards.run(1, layers[1], shards.run(0, layers[0], x)), y);
        sgd.minimize(loss, tape, shards.variables());
      }
      shards.gather();
    }
    return layers[0].kernel.value();
  };
  const Tensor plain = trained(0);
  EXPECT(same(trained(2), plain) && same(trained(3), plain));
}

// NCCL adds, from the last rank to the first, where it may: sums and means.
void by_nccl() {
  const WithDevice here(gpu);
  for (const DType d : {f32, f64, c64}) {
    Tensor sum = own({200}, n - 1, d);
    for (int64_t r = n - 1; r-- > 0;) sum = sum + own({200}, r, d);
    const Tensor x = own({200}, me, d), is = distribute::all_reduce(x);
    EXPECT(same(is, sum) && distribute::is_same(is.to(host)));
  }
  const Tensor x = own({n, 20}, me), parts = distribute::reduce_scatter(x);
  EXPECT(n == 1 || (calls("ncclAllReduce") > 0 && calls("ncclReduceScatter") == 1));
  EXPECT(same(distribute::all_gather(parts).reshape({n, 20}), distribute::all_reduce(x)));
  const WithDevice there(host);
  EXPECT(same_there([](const Tensor& v) { return distribute::all_reduce(v, Reduce::max); }, own({9}, me)));
  EXPECT(same_there([](const Tensor& v) { return distribute::all_reduce(v); }, own({9}, me).astype(i16)));
}

// For several_gpus.py: what sums take, by whoever adds.
void times() {
  const WithDevice here(gpu);
  for (int64_t bytes = 1 << 10; bytes <= int64_t(256) << 20; bytes *= 16) {
    const Tensor x = ones({bytes / 4});
    const int calls = bytes < 1 << 20 ? 200 : 20;
    double least = 1e9;
    for (int i = 0; i < 5; ++i) {
      synchronize(gpu), distribute::barrier();
      const auto began = std::chrono::steady_clock::now();
      for (int k = 0; k < calls; ++k) distribute::all_reduce(x);
      synchronize(gpu);
      least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / calls);
    }
    if (me == 0)
      std::printf("all_reduce of %lld bytes: %.1f us, %.1f GB/s\n", (long long)bytes, least * 1e6,
                  double(bytes) / least / 1e9);
  }
}

// All ranks have one GPU: by the host, and one line says so.
void shared() {
  const WithDevice here(host);
  EXPECT(same_there([](const Tensor& v) { return distribute::all_reduce(v); }, own({400}, me)));
  EXPECT(same_there([](const Tensor& v) { return distribute::rotate(v); }, own({400}, me)));
  EXPECT(n == 1 || calls("ncclCommInitRankConfig") == 0);
}

struct Normed {
  nn::Dense hidden{5, {.activation = tanh}}, out{2};
  nn::BatchNorm norm;
  Tensor operator()(const Tensor& v) const { return out(norm(hidden(v), nn::Mode::training)); }
  RILL_LAYER(Normed, hidden, out, norm)
};

// Two GPUs of one process, and the host, which has no Session to know of.
void of_one_process() {
  const std::vector<Device> two = {"gpu:0", "gpu:1"}, three = {"gpu:0", "gpu:1", "cpu:0"};
  const WithDevice here(host);
  const Tensor x = own({12, 4}, 1), y = own({12, 2}, 2);
  for (const auto& devices : {two, three})
    for (const int64_t axis : {0, 1}) {
      const Tensor whole = axis ? own({3, 12}, 5) : x;
      const std::vector<Tensor> parts = distribute::shard(whole, devices, axis);
      for (size_t i = 0; i < devices.size(); ++i) EXPECT(parts[i].device() == devices[i]);
      EXPECT(same(distribute::gather(parts, axis, host), whole));
    }
  const std::vector<Tensor> sums = distribute::all_reduce(distribute::shard(x, three));
  const Tensor sum = (x(slice(0, 4)) + x(slice(4, 8))) + x(slice(8, 12));
  for (size_t i = 0; i < 3; ++i) EXPECT(sums[i].device() == three[i] && same(sums[i].to(host), sum));

  random::seed(1);
  Normed net;
  nn::build(net.hidden, spec(f32, {any, 4})), nn::build(net.norm, spec(f32, {any, 5}));
  nn::build(net.out, spec(f32, {any, 5}));
  const std::vector<Variable> parameters = nn::trainable(variables(net).values());
  const auto loss_of = [&](const Tensor& a, const Tensor& b) { return mean_squared_error(net(a), b); };
  const auto on = [&](const std::vector<Device>& devices) {
    return distribute::gradients_on(devices, parameters, loss_of, x, y);
  };
  // Two parts on one GPU, on two, and traced: the same bits. On the host likewise, but for rounding.
  const auto [loss, gradients] = on({"gpu:0", "gpu:0"});
  const auto [loss_of_two, of_two] = on(two);
  const auto [loss_here, here_too] = on({"cpu:0", "cpu:0"});
  auto traced = function("traced", [&](const Tensor& a, const Tensor& b) {
    auto [l, g] = distribute::gradients_on(two, parameters, loss_of, a, b);
    g.push_back(l);
    return g;
  });
  const std::vector<Tensor> in_graph = traced(x, y);
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT(of_two[i].device() == host && same(of_two[i], gradients[i]) && same(in_graph[i], gradients[i]));
    EXPECT(allclose(of_two[i], here_too[i], {.rtol = 1e-4, .atol = 1e-5}));
  }
  EXPECT(same(loss.to(host), loss_of_two.to(host)) && allclose(loss.to(host), loss_here, {.rtol = 1e-5}));
  EXPECT(!same(net.norm.mean.value(), zeros({5})));  // what f assigns comes back
  if (std::has_single_bit(uint64_t(n))) {
    const auto [of_parts, parts] = distribute::gradients_of_parts(2 * n, parameters, loss_of, x, y);
    EXPECT(same(of_parts, loss_here));
    for (size_t i = 0; i < parameters.size(); ++i) EXPECT(same(parts[i], here_too[i]));
  }
  EXPECT(says([&] { on({}); }, "there is no device in the list"));
  EXPECT(says([&] { on({"gpu:0", "gpu:1", "cpu:0", "cpu:0", "cpu:0"}); }, "is no multiple of 5"));
  EXPECT(says([&] { on({"gpu:7"}); }, "there is no gpu:7"));
}

void wait_for_failure(int result) {
  const Tensor x = own({n, 500}, me).to(gpu);
  const Tensor first = distribute::all_reduce(x);
  if (me == 1) fail_next_group(result);
  const Tensor y = distribute::all_reduce(first);
  y.to(host);
}

}  // namespace

extern const Cases gpu_cases = {
    {"gpus_dtypes", device_dtypes},
    {"gpus_collectives", collectives},
    {"gpus_streams", streams},
    {"gpus_two", two_ranks},
    {"gpus_begun", begun},
    {"gpus_tapes", tapes},
    {"gpus_zero", zero},
    {"gpus_nccl_sums", by_nccl},
    {"gpus_shared", shared},
    {"gpus_of_one", of_one_process},
    {"gpus_times", times},
    {"gpus_times_of_nccl", times},
};
extern const Cases gpu_mistakes = {
    {"gpus_fail", [] { wait_for_failure(6); }},
    {"gpus_hang", [] { wait_for_failure(0); }},
    {"gpus_other_place", [] { distribute::all_reduce(ones({300}).to(me ? gpu : host)); }},
    {"gpus_other_shape", [] { distribute::all_reduce(ones({300 + me}).to(gpu)); }},
    {"gpus_die",
     [] {
       const Tensor x = ones({300}).to(gpu), y = distribute::all_reduce(x);
       if (me == 1) kill(getpid(), SIGKILL);
       distribute::all_reduce(y).to(host);
     }},
};
