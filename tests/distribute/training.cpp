// Cases of test_distribute.py: training on several ranks, layers and optimizers that lie on them.
#include "cases.h"

namespace {

// --- Models ----------------------------------------------------------------------------------------------------------

void training() {
  random::seed(uint64_t(1 + me));  // other numbers on each rank
  Net net;
  nn::build(net, spec(f32, {any, 4}));
  EXPECT((n == 1) == distribute::is_same(net));
  distribute::broadcast(net);
  EXPECT(distribute::is_same(net));
  nn::Adam adam({.learning_rate = 0.01});
  auto step = function("step", [&](const Tensor& x, const Tensor& y) {
    distribute::GradientTape tape;
    Tensor loss = mean_squared_error(net(x), y);
    adam.minimize(loss, tape, variables(net));
    return distribute::mean(loss);
  });
  for (const auto& [x, y] : examples().batch(32).shard(n, me, {.within_batch = true}).repeat(5)) step(x, y);
  EXPECT(distribute::is_same(net) && distribute::is_same(adam));
  // The gradient is the mean of the ranks', whatever the buckets.
  const Tensor x = own({8, 4}, me), y = own({8, 1}, me);
  const auto gradient = [&](auto&& tape) {
    const Tensor loss = mean_squared_error(net(x), y);
    return tape.gradient(loss, variables(net).values());
  };
  const auto whole = gradient(distribute::GradientTape()),
             small = gradient(distribute::GradientTape({.bucket_bytes = 1})), mine = gradient(GradientTape());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT(same(whole[i], small[i]));
    EXPECT(same(whole[i], distribute::mean(mine[i])));
  }
}

// A bucket travels while the walk goes on: ranks that make the calls by hand, in that order, go with one that walks.
void overlap() {
  const Tensor w = own({5000}, me);
  Variable first(own({5000}, 1), "first"), last(own({5000}, 2), "last");
  const auto largest = custom_gradient([](const Tensor& x) {
    return std::pair(x * 1.0, [](const Tensor& g) { return distribute::all_reduce(g, Reduce::max); });
  });
  std::vector<Tensor> got;
  if (me == 0) {
    distribute::GradientTape tape({.bucket_bytes = 1});
    const Tensor loss = sum(largest(first) * last * w);
    got = tape.gradient(loss, {first, last});
  } else {
    const Tensor of_last = distribute::mean(first * w);
    got = {distribute::mean(distribute::all_reduce(last * w, Reduce::max)), of_last};
  }
  EXPECT(distribute::is_same(got[0]) && distribute::is_same(got[1]));
}

// Several at once on their way, small and large, and one that nothing depends on.
void many_buckets() {
  std::vector<Variable> all;
  for (int64_t i = 0; i < 9; ++i) all.push_back(Variable(own({i % 3 == 0 ? 7 : 4000 + i}, i), "v"));
  const auto gradients = [&](auto&& tape) {
    Tensor x = full({}, double(me + 1) / 7, f32);
    for (size_t i = 1; i < all.size(); ++i) x = mean(tanh(all[i] * x)) + sum(square(all[i])) * x;
    return tape.gradient(x, all, {.unconnected = Unconnected::zero});
  };
  const std::vector<Tensor> mine = gradients(GradientTape());
  for (const int64_t bytes : {1, 20000, 1 << 20}) {
    const std::vector<Tensor> g = gradients(distribute::GradientTape({.bucket_bytes = bytes}));
    const std::vector<Tensor> traced =
        function("g", [&] { return gradients(distribute::GradientTape({.bucket_bytes = bytes})); })();
    for (size_t i = 0; i < all.size(); ++i) EXPECT(same(g[i], distribute::mean(mine[i])) && same(g[i], traced[i]));
  }
  // A walk that throws on all ranks leaves nothing behind.
  const auto fails = custom_gradient(
      [](const Tensor& x) { return std::pair(x * 1.0, [](const Tensor& g) { return g.reshape({3}); }); });
  distribute::GradientTape tape({.persistent = true, .bucket_bytes = 1});
  const Tensor loss = sum(fails(all[1]) * sum(square(all[2])));
  bool has_thrown = false;
  try {
    tape.gradient(loss, {all[1], all[2]});
  } catch (const Error&) {
    has_thrown = true;
  }
  EXPECT(has_thrown);
  EXPECT(same(tape.gradient(loss, all[2]), distribute::mean(tape.gradient(loss, all[2]))));
}

void compressed() {
  Variable w(own({5000}, 1), "w"), b(own({3}, 2, f64), "b");
  const auto gradients = [&](auto&& tape) {
    const Tensor loss = sum(w * own({5000}, me)) + sum(square(b) * double(me + 1)).astype(f32);
    return tape.gradient(loss, {w, b});
  };
  const std::vector<Tensor> mine = gradients(GradientTape());
  for (const DType d : {bf16, f16}) {
    const std::vector<Tensor> g = gradients(distribute::GradientTape({.compress = d}));
    for (size_t i = 0; i < 2; ++i) EXPECT(same(g[i], distribute::mean(mine[i].astype(d)).astype(mine[i].dtype())));
    EXPECT(allclose(g[0], distribute::mean(mine[0]), {.rtol = 0.02, .atol = 0.02}));
  }
  std::string message;
  try {
    distribute::GradientTape tape({.compress = f32});
  } catch (const Error& e) {
    message = e.what();
  }
  EXPECT(message.find("compress is f32 and must be f16 or bf16") != std::string::npos);
}

void tables() {
  Variable table(own({10, 3}, 5), "table");
  const Tensor ids = tensor({me, int64_t(7), me});
  const auto run = [&](bool rows) {
    distribute::GradientTape tape({.rows = rows});
    const Tensor loss = sum(square(take(table, ids, 0)));
    return tape.sparse_gradient(loss, table);
  };
  const Gradient dense = run(false), rows = run(true);
  EXPECT(!dense.is_sparse() && rows.is_sparse());
  EXPECT(allclose(dense.dense(), rows.dense(), {.rtol = 1e-6}));
}

// Printed, for the script to compare between numbers of ranks.
void same_bits() {
  random::seed(1);
  Net net;
  nn::build(net, spec(f32, {any, 4}));
  nn::Adam adam({.learning_rate = 0.01});
  const auto loss_of = [&](const Tensor& x, const Tensor& y) { return mean_squared_error(net(x), y); };
  const std::vector<Variable> all = variables(net).values();
  auto step = function("step", [&](const Tensor& x, const Tensor& y) {
    auto [loss, gradients] = distribute::gradients_of_parts(8, all, loss_of, x, y);
    adam.apply_gradients(gradients, all);
    return loss;
  });
  Tensor loss;
  for (const auto& [x, y] : examples().batch(32).shard(n, me, {.within_batch = true}).repeat(3)) loss = step(x, y);
  EXPECT(distribute::is_same(net));
  uint64_t bits = 0;
  for (const Variable& v : all) bits = bits_with(bits, v.value());
  if (me == 0)
    std::printf("bits %016llx loss %.9g\n", static_cast<unsigned long long>(bits), double(loss.item<float>()));
}

void meshes() {
  const int64_t rows = n % 2 == 0 ? 2 : 1, columns = n / rows;
  distribute::Mesh mesh({{"data", rows}, {"model", columns}});
  const Tensor w = arange(4 * rows * 6 * columns).astype(f32).reshape({4 * rows, 6 * columns});
  for (const distribute::Layout& layout : {distribute::Layout{"data", none}, distribute::Layout{none, "model"},
                                           distribute::Layout{"model", "data"}, distribute::Layout{none}}) {
    if (layout.axes()[0].axis == "model" && (4 * rows) % columns != 0) continue;
    const Tensor part = distribute::shard(w, mesh, layout);
    EXPECT(same(distribute::gather(part, mesh, layout), w));
  }
  // A product whose columns, and one whose rows, lie on several ranks.
  const Tensor x = own({5, 4}, 1), a = own({4, 6 * columns}, 2), b = own({6 * columns, 3}, 3);
  const Tensor h = relu(matmul(x, distribute::shard(a, mesh, {none, "model"})));
  const Tensor y =
      distribute::all_reduce(matmul(h, distribute::shard(b, mesh, {"model"})), Reduce::sum, mesh.group("model"));
  EXPECT(allclose(y, matmul(relu(matmul(x, a)), b), {.rtol = 1e-5, .atol = 1e-5}));
}

// --- Layers, optimizers, metrics -------------------------------------------------------------------------------------

// Two Dense layers on all ranks together, beside the same on one.
void layers() {
  struct Whole {
    nn::Dense up{4 * n, {.activation = tanh}}, down{3};
    Tensor operator()(const Tensor& x) const { return down(up(x)); }
  };
  struct Parts {
    distribute::ColumnParallelDense up{4 * n, {.activation = tanh}};
    distribute::RowParallelDense down{3};
    Tensor operator()(const Tensor& x) const { return down(up(x)); }
  };
  random::seed(1);
  const Whole whole;
  random::seed(1);
  const Parts parts;
  const Tensor x = own({5, 6}, 1);
  EXPECT(allclose(parts(x), whole(x), {.rtol = 1e-5, .atol = 1e-6}));
  const auto gradients = [&](const auto& model) {
    GradientTape tape;
    tape.watch(x);
    const Tensor loss = sum(square(model(x)));
    return tape.gradient(loss, {model.up.kernel, model.up.bias, model.down.kernel, model.down.bias, Source(x)});
  };
  const std::vector<Tensor> a = gradients(whole), b = gradients(parts);
  const auto near = [](const Tensor& u, const Tensor& v) { return allclose(u, v, {.rtol = 1e-4, .atol = 1e-5}); };
  const Index mine = slice(4 * me, 4 * me + 4);
  EXPECT(near(b[0], a[0](all, mine)) && near(b[1], a[1](mine)) && near(b[2], a[2](mine)) && near(b[3], a[3]) &&
         near(b[4], a[4]));
}

// A table and a softmax over 4 n words, of which each rank has four, beside the same on one.
void vocabulary() {
  random::seed(1);
  const nn::Embedding whole(4 * n, 3);
  random::seed(1);
  const distribute::VocabularyParallelEmbedding parts(4 * n, 3);
  const Tensor ids = (arange(12) * 5 % (4 * n)).reshape({3, 4}), labels = (arange(12) * 7 % (4 * n)).reshape({3, 4});
  const Index mine = slice(4 * me, 4 * me + 4);
  EXPECT(same(parts.table.value(), whole.table.value()(mine)));
  EXPECT(holds([&](const Tensor& v) { return parts(v); }, ids, whole(ids)));
  const Tensor w = own({3, 4 * n}, 3);  // of words by what the table gives
  const auto near = [](const Tensor& u, const Tensor& v) { return allclose(u, v, {.rtol = 1e-4, .atol = 1e-6}); };
  const auto run = [&](const Variable& table, const auto& loss_of) {
    GradientTape tape;
    tape.watch(w);
    const Tensor loss = loss_of();
    return std::pair(loss, tape.gradient(mean(loss), {Source(table), Source(w)}));
  };
  const auto one = [&] { return sparse_softmax_cross_entropy(matmul(whole(ids), w), labels); };
  const auto all_of_them = [&] {
    const Tensor logits = matmul(distribute::fan_out(parts(ids)), w(all, mine));
    return distribute::sparse_softmax_cross_entropy(logits, labels);
  };
  const auto [a, da] = run(whole.table, one);
  const auto [b, db] = run(parts.table, all_of_them);
  EXPECT(near(a, b) && near(db[0], da[0](mine)) && near(db[1](all, mine), da[1](all, mine)));
  EXPECT(distribute::is_same(b) && same(function("f", all_of_them)(), b));
  // Large numbers, and half ones.
  const Tensor large = own({5, 4 * n}, 4) * 1000.0, five = arange(5) % (4 * n);
  EXPECT(near(distribute::sparse_softmax_cross_entropy(large(all, mine), five),
              sparse_softmax_cross_entropy(large, five)));
  EXPECT(distribute::sparse_softmax_cross_entropy(large(all, mine).astype(bf16), five).dtype() == bf16);
  for (const int64_t wrong : {int64_t(-1), 4 * n}) {
    bool embeds = true, costs = true;
    try {
      parts(tensor({wrong}));
    } catch (const Error&) {
      embeds = false;
    }
    try {
      distribute::sparse_softmax_cross_entropy(large(all, mine), full({5}, wrong, i64));
    } catch (const Error&) {
      costs = false;
    }
    EXPECT(!embeds && !costs);
  }
}

void batch_norm() {
  const Tensor all = own({4 * n, 3, 2}, 1, f32) + 100.0;
  const Tensor x = all(slice(4 * me, 4 * me + 4));
  const nn::BatchNorm whole;
  const distribute::SyncBatchNorm sync;
  const auto near = [](const Tensor& u, const Tensor& v) { return allclose(u, v, {.rtol = 1e-4, .atol = 1e-4}); };
  EXPECT(near(sync(x, nn::Mode::training), whole(all, nn::Mode::training)(slice(4 * me, 4 * me + 4))));
  EXPECT(near(sync.mean, whole.mean) && near(sync.variance, whole.variance) && distribute::is_same(sync));
  // The gradient by x of the sum over all ranks.
  const Tensor weights = own({4 * n, 3, 2}, 2);
  const Tensor a = grad([&](const Tensor& v) { return sum(weights * whole(v, nn::Mode::training)); })(all);
  const Tensor b =
      grad([&](const Tensor& v) { return sum(weights(slice(4 * me, 4 * me + 4)) * sync(v, nn::Mode::training)); })(x);
  EXPECT(allclose(b, a(slice(4 * me, 4 * me + 4)), {.rtol = 1e-2, .atol = 1e-3}));
}

// Parts of different lengths, and of none: the statistics are those of all examples, not means of the ranks' means.
void uneven_batch_norm() {
  const nn::BatchNorm whole;
  const distribute::SyncBatchNorm sync;
  const auto near = [](const Tensor& u, const Tensor& v) { return allclose(u, v, {.rtol = 1e-4, .atol = 1e-4}); };
  const auto step = function("step", [&](const Tensor& x) { return sync(x, nn::Mode::training); },
                             {.signature = {spec(f32, {any, 3, 2})}});
  const Tensor all = own({3 * n * (n + 1) / 2, 3, 2}, 1, f32) + iota({3 * n * (n + 1) / 2, 1, 1}, 0).astype(f32);
  const int64_t from = 3 * me * (me + 1) / 2, to = from + 3 * (me + 1);  // rank 0 has three rows, rank 1 six
  const auto mine = slice(from, to);
  for (int i = 0; i < 2; ++i) {
    const Tensor y = whole(all, nn::Mode::training)(mine), x = all(mine);
    EXPECT(near(i == 0 ? sync(x, nn::Mode::training) : step(x), y));
    EXPECT(near(sync.mean, whole.mean) && near(sync.variance, whole.variance) && distribute::is_same(sync));
  }
  const Tensor some = me == 0 ? all(slice(0, 0)) : all(mine), rest = all(slice(3, none));
  const Tensor y = whole(rest, nn::Mode::training);
  EXPECT(near(step(some), me == 0 ? some : y(slice(from - 3, to - 3))));
  EXPECT(near(sync.mean, whole.mean) && near(sync.variance, whole.variance));
  const Tensor before = sync.mean;
  step(all(slice(0, 0)));
  EXPECT(same(sync.mean, before));
}

void sharded() {
  random::seed(1);
  Net one, other;
  nn::build(one, spec(f32, {any, 4})), nn::build(other, spec(f32, {any, 4}));
  const std::vector<Variable> a = variables(one).values(), b = variables(other).values();
  for (size_t i = 0; i < a.size(); ++i) Variable(b[i]).assign(a[i].value());
  nn::Adam whole({.learning_rate = 0.01}), parts({.learning_rate = 0.01});
  const auto train = [&](const Net& net, const std::vector<Variable>& all, auto&& apply) {
    return function("step", [&, apply](const Tensor& x, const Tensor& y) {
      distribute::GradientTape tape;
      const Tensor loss = mean_squared_error(net(x), y);
      apply(tape.gradient(loss, all));
    });
  };
  auto step_one = train(one, a, [&](const std::vector<Tensor>& g) { whole.apply_gradients(g, a); });
  auto step_other =
      train(other, b, [&](const std::vector<Tensor>& g) { distribute::apply_gradients_sharded(parts, g, b); });
  for (const auto& [x, y] : examples().batch(32).shard(n, me, {.within_batch = true})) step_one(x, y), step_other(x, y);
  for (size_t i = 0; i < a.size(); ++i) EXPECT(same(a[i].value(), b[i].value()));
  EXPECT(n == 1 || parts.variables().size() < whole.variables().size());
}

// A sharded optimizer's checkpoint is that of one process, and goes on on any number of ranks.
void gathered_state() {
  if (folder.empty()) return;
  struct Run {
    Net net;
    nn::Adam adam{{.learning_rate = 0.01, .ema = 0.9}};
    Run() {
      random::seed(1);
      net = Net();
      nn::build(net, spec(f32, {any, 4}));
    }
    std::vector<Variable> all() const { return variables(net).values(); }
    Checkpoint checkpoint() const { return Checkpoint({{"net", net}, {"adam", adam}}); }
  };
  const auto steps = [](Run& run, int64_t first, int64_t last, bool sharded) {
    for (int64_t i = first; i < last; ++i) {
      distribute::GradientTape tape;
      const Tensor loss = mean_squared_error(run.net(own({8, 4}, 10 * i + me)), own({8, 1}, 10 * i + me));
      const std::vector<Tensor> g = tape.gradient(loss, run.all());
      if (sharded) distribute::apply_gradients_sharded(run.adam, g, run.all());
      else run.adam.apply_gradients(g, run.all());
    }
  };
  const auto equal = [](const Run& a, const Run& b) {
    bool is_equal = true;
    for (size_t i = 0; i < a.all().size(); ++i) is_equal &= same(a.all()[i].value(), b.all()[i].value());
    return is_equal;
  };
  Run straight, stopped, by_all, by_one;
  steps(straight, 0, 5, true), steps(stopped, 0, 3, true);
  const size_t remembered = stopped.adam.variables().size();
  distribute::gather_state(stopped.adam, stopped.all(), n - 1);
  if (me == n - 1) stopped.checkpoint().save(folder + "/run");
  else EXPECT(stopped.adam.variables().size() == remembered);
  distribute::barrier();
  for (Run* run : {&by_all, &by_one}) run->checkpoint().restore(folder + "/run");
  steps(by_all, 3, 5, true), steps(by_one, 3, 5, false), steps(stopped, 3, 5, true);
  EXPECT(equal(by_all, straight) && equal(by_one, straight) && equal(stopped, straight));
  // What one process remembers of all parameters is what the owners remember of theirs.
  distribute::gather_state(by_all.adam, by_all.all());
  if (me == 0) {
    const NamedVariables a = by_all.checkpoint().variables(), b = by_one.checkpoint().variables();
    EXPECT(a.size() == b.size());
    for (const auto& [path, v] : a) EXPECT(same(v.value(), b.at(path).value()));
  }
}

// Which task each rank has, by the program and as TensorFlow's variable says it.
void clusters() {
  const auto message_of = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const auto says = [&](const char* config, const char* expected) {
    setenv("TF_CONFIG", config, 1);
    return message_of([] { distribute::Cluster::from_tf_config(); }).find(expected) != std::string::npos;
  };
  unsetenv("TF_CONFIG");
  const auto all = distribute::Cluster::from_tf_config();
  EXPECT(all.job() == "worker" && all.task() == me && all.is_chief() == (me == 0) && all.training().size() == n);
  EXPECT(says("{}", "no field 'cluster'"));
  EXPECT(says(R"({"cluster": {"worker": ["a:1" "b:1"]}})", "expected ',' or ']' at character 31"));
  EXPECT(says(R"({"cluster": {"worker": 3}})", "must be a list of addresses"));
  EXPECT(says(R"({"cluster": {"worker": ["a", "b", "c", "d", "e"]}})", "mpirun -n 5"));
  EXPECT(message_of([&] { (void)all.group("ps"); }).find("no job 'ps'") != std::string::npos);
  if (n != 4) return;
  const char* config = R"( {"cluster": {"evaluator": ["e:1"], "worker": {"0": "w:1", "1": "w:2"}, "chief": ["c:1"]},
                            "rpc_layer": "grpc", "verbose": true, "port": -1.5e3 } )";
  setenv("TF_CONFIG", config, 1);
  const auto cluster = distribute::Cluster::from_tf_config();
  const std::string names[] = {"/job:chief/task:0", "/job:worker/task:0", "/job:worker/task:1",
                               "/job:evaluator/task:0"};
  EXPECT(cluster.name() == names[me] && cluster.is_chief() == (me == 0));
  EXPECT(cluster.rank_of("worker", 1) == 2 && cluster.has("evaluator") && !cluster.has("ps"));
  EXPECT(says(R"({"cluster": {"worker": ["a", "b", "c", "d"]}, "task": {"type": "worker", "index": 7}})",
              "leave 'task' out"));
  // The evaluator takes no part in what the others do.
  if (cluster.job() == "evaluator") return;
  const Tensor sum = distribute::all_reduce(tensor(double(me)), Reduce::sum, cluster.training());
  EXPECT(sum.item<double>() == 3);
  if (cluster.job() == "worker") EXPECT(distribute::all_gather(sum, cluster.group("worker")).size() == 2);
}

void joined_metrics() {
  const Tensor logits = own({8 * n, 3}, 1), labels = arange(8 * n) % 3;
  const Index mine = slice(8 * me, 8 * me + 8);
  auto whole = metrics::accuracy(), part = metrics::accuracy();
  whole.update(logits, labels), part.update(logits(mine), labels(mine));
  const Tensor own_result = part.result();
  EXPECT(same(distribute::result(part), whole.result()));
  EXPECT(same(part.result(), own_result));
}

const Cases all_here = {
    {"training", training},
    {"overlap", overlap},
    {"many_buckets", many_buckets},
    {"compressed", compressed},
    {"tables", tables},
    {"same_bits", same_bits},
    {"meshes", meshes},
    {"layers", layers},
    {"vocabulary", vocabulary},
    {"batch_norm", batch_norm},
    {"uneven_batch_norm", uneven_batch_norm},
    {"sharded", sharded},
    {"gathered_state", gathered_state},
    {"clusters", clusters},
    {"joined_metrics", joined_metrics},
};

}  // namespace

const Cases training_cases = all_here;
