// Recurrent layers: torch's and Keras's numbers from the same weights, lengths, masks and states, traced as eager.
#include "catch.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/ops/linear_algebra.h"
#include "rill/rill.h"

using namespace rill;

namespace {

// sin(0.7 i + start) / 2, as the script that asked torch and Keras has it.
Tensor waves(const Shape& shape, double start) {
  return reshape(sin(arange(int64_t(shape.numel()), TensorOptions{.dtype = f64}) * 0.7 + start) / 2, shape);
}
// All of a cell's parameters, in the order of its fields, from starts 1, 2, 3, ...
template <class Layer>
void fill(const Layer& layer, const Tensor& x, double start = 1) {
  Layer made = layer;
  nn::build(made, x);
  nn::cast(made, f64);
  for (Variable& v : made.variables()) v.assign(waves(v.value().shape(), start++));
}
bool near(const Tensor& actual, const Tensor& expected) {
  return allclose(flatten(actual), expected, {.rtol = 1e-7, .atol = 1e-9});
}
const Tensor& sequences() {
  static const Tensor x = waves({2, 3, 2}, 0.3);
  return x;
}

}  // namespace

TEST_CASE("an LSTM of two layers and directions gives torch's numbers, with lengths too") {
  const nn::LSTM lstm(2, {.layers = 2, .bidirectional = true});
  fill(lstm, sequences());
  const nn::RecurrentResult r = lstm.run(sequences(), {.lengths = tensor({3, 2})});
  CHECK(near(r.output, tensor({-0.0745077042, 0.0141996277,  0.1255170682,  0.0237345769, -0.0991346542, 0.0310075462,
                               0.1022858143,  0.0158395669,  -0.1188892261, 0.0208851795, 0.0659399274,  0.0130928115,
                               -0.1006031314, -0.0185207205, 0.1141728345,  0.0429789933, -0.1181476213, 0.0028740871,
                               0.0667290911,  0.0166851254,  0.0,           0.0,          0.0,           0.0})));
  CHECK(r.output.shape() == Shape{2, 3, 4});
  std::vector<Tensor> h, c;
  for (size_t i = 0; i < r.states.size(); i += 2) h.push_back(r.states[i]), c.push_back(r.states[i + 1]);
  CHECK(near(stack(h), tensor({-0.1017485481, 0.0366847063, -0.0692408196, 0.065243527, 0.1314039228, 0.0650107874,
                               0.0590010393, -0.0772624272, -0.1188892261, 0.0208851795, -0.1181476213, 0.0028740871,
                               0.1255170682, 0.0237345769, 0.1141728345, 0.0429789933})));
  CHECK(near(stack(c), tensor({-0.1608558042, 0.0569610273, -0.1176671094, 0.1070487373, 0.2767406257, 0.1527744586,
                               0.1913693141, -0.2618398253, -0.2081759608, 0.0341158233, -0.2072323726, 0.0047141037,
                               0.2948198242, 0.060987749, 0.2535958115, 0.1083316351})));
  const Tensor mask = tensor({{true, true, true}, {true, true, false}});
  CHECK(array_equal(lstm.run(sequences(), {.mask = mask}).output, r.output));
}

TEST_CASE("projections, GRU, and RNN with relu give torch's numbers") {
  const nn::LSTM projected(3, {.cell = {.projection = 2}});
  fill(projected, sequences());
  const nn::RecurrentResult r = projected.run(sequences(), {});
  CHECK(near(r.output,
             tensor({-0.0747082728, -0.0479199165, -0.0867997384, -0.0373486687, -0.0702674745, -0.0239791405,
                     -0.0493301425, -0.0371610948, -0.0846445163, -0.0583309997, -0.1018201046, -0.0559360785})));
  CHECK(near(r.states[1], tensor({0.2328944001, 0.2922958962, 0.2364237556, 0.320151463, 0.3610197107, 0.2653402728})));
  const nn::GRU gru(2);
  fill(gru, sequences());
  CHECK(near(gru(sequences()),
             tensor({0.0060988018, 0.239697106, -0.0579638897, 0.1905926173, -0.1823813387, 0.1715056284, -0.1360086167,
                     0.2410240781, -0.0394648539, 0.3695478166, -0.0069944046, 0.2986775064})));
  const nn::RNN rnn(2, {.cell = {.activation = relu}});
  fill(rnn, sequences());
  CHECK(near(rnn(sequences()), tensor({0.2748235908, 0.0, 0.5181851142, 0.0466802919, 0.2056131939, 0.0, 0.0, 0.0,
                                       0.0445170928, 0.0, 0.4367728451, 0.0})));
}

TEST_CASE("GRU with the reset before the product, LSTM and ConvLSTM2D give Keras's numbers") {
  const nn::GRU gru(2, {.reverse = true, .cell = {.reset_after = false}});
  fill(gru, sequences());
  // Keras's rows are in the order of work. Its numbers here are those of f32, so these are numpy's, which agree.
  CHECK(near(reverse(gru(sequences()), 1),
             tensor({-0.1658463037, -0.0022035419, -0.1721081848, 0.0006162387, -0.0983222282, 0.1139993652,
                     -0.0576636675, 0.0341371326, -0.0715521077, 0.1633522639, -0.1696177072, 0.1841013381})));
  const nn::LSTM lstm(2, {.return_sequences = false});
  fill(lstm, sequences());
  CHECK(near(lstm(sequences()), tensor({-0.1017485481, 0.0366847063, -0.1199692175, -0.050626474})));
  const nn::ConvLSTM2D conv(2, {2, 2});
  const Tensor video = waves({1, 2, 3, 3, 1}, 0.3);
  fill(conv, video);
  CHECK(near(conv(video), tensor({-0.04046226, -0.0236864343, -0.1347722707, -0.1053429195, -0.2167532531, -0.067082673,
                                  -0.1585319422, 0.0368434193, -0.1061445242, -0.0486884618, -0.1834004675,
                                  -0.1217068741, -0.2433623788, -0.0295295249, -0.1809922359, 0.0593242418})));
}

TEST_CASE("a sequence in two parts gives the bits of the whole; time may be the first axis") {
  random::seed(3);
  const Tensor x = random::normal({2, 6, 3});
  const nn::LSTM lstm(4, {.layers = 2});
  const nn::RecurrentResult whole = lstm.run(x, {});
  const nn::RecurrentResult first = lstm.run(x(all, slice(0, 4)), {});
  const nn::RecurrentResult second = lstm.run(x(all, slice(4, none)), {.initial = first.states});
  CHECK(array_equal(concat({first.output, second.output}, 1), whole.output));
  for (size_t i = 0; i < 4; ++i) CHECK(array_equal(second.states[i], whole.states[i]));
  nn::LSTM by_time = lstm;
  by_time.options.time_axis = 0;
  CHECK(array_equal(swapaxes(by_time(swapaxes(x, 0, 1)), 0, 1), whole.output));
  // Cell by cell.
  nn::States states = lstm.cells[0].first_states(x(all, 0));
  for (int64_t t = 0; t < 6; ++t) states = lstm.cells[0](x(all, t), states);
  CHECK(array_equal(states[0], whole.states[0]));
}

TEST_CASE("traced recurrent layers are one scan a direction and have the eager bits, gradients too") {
  random::seed(4);
  const Tensor x = random::normal({3, 5, 2}), lengths = tensor({5, 1, 3});
  const nn::GRU gru(4, {.layers = 2, .bidirectional = true, .dropout = 0.3, .cell = {.recurrent_dropout = 0.2}});
  gru(x);
  const auto loss = [&](const Tensor& in) {
    GradientTape tape;
    tape.watch(in);
    const nn::RecurrentResult r = gru.run(in, {.lengths = lengths}, nn::Mode::training);
    std::vector<Tensor> all = tape.gradient(sum(square(r.output)) + sum(r.states[3]), gru.variables());
    all.push_back(r.output);
    return all;
  };
  auto traced = function("loss", loss);
  random::seed(9);
  const std::vector<Tensor> eager = loss(x);
  random::seed(9);
  const std::vector<Tensor> compiled = traced(x);
  for (size_t i = 0; i < eager.size(); ++i) {
    INFO(i);
    CHECK(array_equal(eager[i], compiled[i]));
  }
  auto plain = function("plain", [&](const Tensor& in) { return gru(in); });
  const std::string text = to_string(plain.graph(x));
  size_t scans = 0;
  for (size_t at = text.find("= scan"); at != std::string::npos; at = text.find("= scan", at + 1)) ++scans;
  CHECK(scans == 4);
}

TEST_CASE("dropout between layers is of training alone, and errors name what does not fit") {
  random::seed(5);
  const Tensor x = random::normal({2, 3, 2});
  const nn::RNN rnn(3, {.layers = 2, .bidirectional = true, .merge = nn::Merge::sum, .dropout = 0.5});
  CHECK(array_equal(rnn(x), rnn(x)));
  CHECK(rnn(x).shape() == Shape{2, 3, 3});
  CHECK_FALSE(array_equal(rnn(x, nn::Mode::training), rnn(x)));
  CHECK(message_of([&] { rnn.run(x, {.initial = {zeros({2, 3})}}); }).find("takes 4 first states. got 1") !=
        std::string::npos);
  CHECK(message_of([&] { rnn(x(0)); }).find("is not [batch, steps, in]") != std::string::npos);
  CHECK(message_of([&] { nn::LSTM(3)(x(0)); }).find("[LSTM]") != std::string::npos);
  CHECK(message_of([&] { nn::GRU(0); }).find("units is 0") != std::string::npos);
  CHECK(message_of([&] { rnn.run(x, {.lengths = tensor({1.5, 2.})}); }).find("lengths are integers") !=
        std::string::npos);
}

TEST_CASE("orthogonal makes rows or columns of length one, at right angles") {
  random::seed(6);
  for (const Shape& shape : {Shape{4, 4}, Shape{3, 8}, Shape{2, 2, 3}}) {
    const Tensor q = reshape(nn::orthogonal()(shape), {-1, shape.back()});
    const Tensor product = q.dim(0) < q.dim(1) ? matmul(q, q.T()) : matmul(q.T(), q);
    CHECK(allclose(product, eye(product.dim(0)), {.atol = 1e-6}));
  }
}

TEST_CASE("a forget gate's bias begins as one") {
  const nn::LSTM lstm(2);
  lstm(zeros({1, 1, 3}));
  CHECK(array_equal(lstm.cells[0].bias.value(), tensor({0.f, 0.f, 1.f, 1.f, 0.f, 0.f, 0.f, 0.f})));
}

TEST_CASE("states to begin with are as many and as large as a cell has, whatever their dtype") {
  random::seed(11);
  const Tensor x = random::normal({2, 3, 4}), row = random::normal({2, 4});
  const nn::LSTMCell cell(5);
  const nn::Recurrent layer(cell);
  const Tensor h = random::normal({2, 5}), c = random::normal({2, 5});
  says([&] { cell(row, {h}); }, {"[lstm_cell]", "takes 2 states. got 1"});
  says([&] { layer.run(x, {.initial = {h}}); }, {"takes 2 states. got 1"});
  says([&] { layer.run(x, {.initial = {h, zeros({3, 5})}}); }, {"a state is f32[3,5], and must be [2,5]"});
  says([&] { nn::LSTM(5).run(x, {.initial = {h, zeros({2, 4})}}); }, {"a state is f32[2,4], and must be [2,5]"});
  for (const Tensor& wrong : {tensor({1, 4}), tensor({-1, 2})}) {
    says([&] { layer.run(x, {.lengths = wrong}); }, {"lengths are from 0 to the number of steps"});
    const auto traced = function("run", [&](const Tensor& n) { return layer.run(x, {.lengths = n}).output; });
    CHECK(all(traced(wrong) == traced(clip(wrong, 0, 3))).item<bool>());
  }
  says([&] { layer.run(x, {.lengths = tensor({1, 2, 3})}); }, {"lengths are [3], and x is f32[2,3,4]"});
  says([&] { layer.run(x, {.mask = full({3, 2}, true)}); }, {"masks are [3,2], and x is f32[2,3,4]"});
  const Tensor half = h.astype(bf16);
  const auto wide = layer.run(x, {.initial = {half.astype(f32), c}}), narrow = layer.run(x, {.initial = {half, c}});
  CHECK(array_equal(wide.output, narrow.output));
  CHECK(narrow.output.dtype() == f32);
  CHECK(array_equal(cell(row, {})[0], cell(row, {zeros({2, 5}), zeros({2, 5})})[0]));
  CHECK(array_equal(cell(row, {h(slice(0, 1)), c})[1], cell(row, {broadcast_to(h(slice(0, 1)), {2, 5}), c})[1]));
}
