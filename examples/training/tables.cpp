// Four small tables that scikit-learn includes, by a network with one or two hidden layers each: a fifth of the rows is
// the test set. Next to each result is that of scikit-learn's usual model for the table, on the same rows, by peers.py.
#include "example.h"

using namespace rill;

namespace {

struct Problem {
  const char *name, *file, *target;
  int64_t classes;  // 0: the target is a number
  std::vector<int64_t> hidden;
  double rate, decay, drop;
  int64_t epochs;
  const char* beside;
};

// Columns standardised by the mean and the deviation of the training rows.
std::pair<Tensor, Tensor> standardized(const Tensor& train, const Tensor& test) {
  const Tensor middle = mean(train, 0), width = maximum(stddev(train, 0), 1e-6f);
  return {(train - middle) / width, (test - middle) / width};
}

nn::Sequential network(const Problem& p) {
  nn::Sequential net;
  if (p.classes > 0) net.add(nn::GaussianNoise(0.3));  // of the columns' deviation: there are few rows
  for (int64_t width : p.hidden) net.add(nn::Dense(width, {.activation = relu})).add(nn::Dropout(p.drop));
  return net.add(nn::Dense(std::max<int64_t>(p.classes, 1)));
}

void solve(const Problem& p) {
  const Table table = data::csv(example::data_file(p.file)).table();
  std::vector<std::string> columns = table.names;
  std::erase(columns, p.target);
  const Tensor all = table.stacked(columns), target = table.at(p.target);
  const Tensor test = example::test_rows(all.dim(0)), train = example::train_rows(all.dim(0));
  const auto [x, x_test] = standardized(take(all, train, 0), take(all, test, 0));
  Tensor y = take(target, train, 0), y_test = take(target, test, 0);
  nn::Sequential net = network(p);
  train::LoopOptions options{.optimizer = nn::AdamW({.learning_rate = p.rate, .weight_decay = p.decay})};
  if (p.classes > 0) {
    y = y.astype(i64), y_test = y_test.astype(i64);
    options.loss = sparse_softmax_cross_entropy;
    options.metrics = {metrics::accuracy()};
  } else {
    const auto [a, b] = standardized(expand_dims(y.astype(f32), -1), expand_dims(y_test.astype(f32), -1));
    y = a, y_test = b;
    options.loss = mean_squared_error;
    options.metrics = {metrics::r2()};
  }
  train::Loop loop(net, std::move(options));
  auto batches = data::from_tensors(std::pair(x, y)).shuffle({.seed = 1}).batch(32);
  loop.fit(batches, {.epochs = example::quick ? 2 : p.epochs, .progress = false});
  const train::Logs result = loop.evaluate(data::from_tensors(std::pair(x_test, y_test)).batch(64));
  example::print(p.name, result.at(p.classes > 0 ? "accuracy" : "r2"), p.beside);
}

}  // namespace

static void run() {
  for (const Problem& p : std::vector<Problem>{
           {"digits of 8x8, accuracy",
            "small_digits.csv.gz",
            "digit",
            10,
            {512},
            1e-3,
            0.01,
            0.3,
            100,
            "scikit-learn: SVC 0.983, a network 0.981"},
           {"wine, accuracy",
            "wine.csv",
            "cultivar",
            3,
            {32},
            5e-3,
            0.05,
            0.3,
            60,
            "scikit-learn: 0.971 by each of three models"},
           {"breast cancer, accuracy",
            "breast_cancer.csv.gz",
            "benign",
            2,
            {32},
            3e-3,
            0.1,
            0.3,
            60,
            "scikit-learn: LogisticRegression and a network 1.000, SVC 0.982"},
           {"diabetes, R2",
            "diabetes.csv.gz",
            "progression",
            0,
            {128},
            1e-3,
            0.5,
            0.5,
            60,
            "scikit-learn: Ridge 0.445, a network 0.434"},
       })
    solve(p);
}

int main(int argc, char** argv) { return example::main(argc, argv, run); }
