// Rill's side of `./dev bench sweep`: calls any function of tests/oracle's tables on operands of a million elements and
// prints how long it takes. sweep.py sends one JSON line for each call:
//   {"fn": name, "opt": {...}, "in": [{"shape", "dtype", "layout", "from", "to"}, ...], "gradient": bool, "warm": bool}
// and reads {"us": time} or {"error": text}. `warm`: only called a few times, so that kernels are compiled before the
// timed calls. Layouts: "dense", "transposed" (of the reversed shape), "broadcast" (of a row).
#include <iostream>

#include "../tests/oracle/cases.h"
#include "answer.h"

using namespace rill;
using oracle::json;
using oracle::Values;

namespace {

Tensor operand(const json& j) {
  const DType dtype = parse_dtype(j.at("dtype").get<std::string>());
  const std::string layout = j.value("layout", "dense");
  Shape shape(j.at("shape").get<std::vector<int64_t>>());
  if (layout == "transposed") std::reverse(shape.begin(), shape.end());
  if (layout == "broadcast" && !shape.empty()) shape[0] = 1;
  const double from = j.at("from"), to = j.at("to");
  Tensor x = random::uniform(shape, {.low = from, .high = to, .key = random::Key(7)});
  if (is_complex(dtype)) x = complex(x, random::uniform(shape, {.low = from, .high = to, .key = random::Key(8)}));
  x = x.astype(dtype);
  if (layout == "transposed") return transpose(x);
  if (layout == "broadcast") return broadcast_to(x, Shape(j.at("shape").get<std::vector<int64_t>>()));
  return x;
}

double median_us(const std::function<void()>& work) {
  return bench::median_us([&](int times) {
    for (int i = 0; i < times; ++i) work();
  });
}

json answer(const oracle::Table& table, const json& asked) {
  const auto& call = table.at(asked.at("fn")).call;
  Values in;
  for (const json& j : asked.at("in")) in.push_back(operand(j));
  const json options = asked.value("opt", json::object());
  const auto forward = [&] { return call(oracle::Call(in, options)); };
  const auto with_gradient = [&] {
    GradientTape tape;
    std::vector<Tensor> watched;
    for (const Tensor& t : in)
      if (is_floating(t.dtype())) tape.watch(t), watched.push_back(t);
    Tensor total = sum(forward()[0]);
    static_cast<void>(tape.gradient(total, watched));
  };
  const std::function<void()> work =
      asked.value("gradient", false) ? std::function<void()>(with_gradient) : [&] { static_cast<void>(forward()); };
  if (!asked.value("warm", false)) return {{"us", median_us(work)}};
  for (int i = 0; i < 3; ++i) work();
  return {{"us", 0}};
}

}  // namespace

int main() {
  oracle::Table table;
  oracle::add_elementwise(table);
  oracle::add_reductions(table);
  oracle::add_shapes(table);
  oracle::add_networks(table);
  for (std::string line; std::getline(std::cin, line);) {
    json said;
    try {
      said = answer(table, json::parse(line));
    } catch (const std::exception& e) {
      said = {{"error", std::string(e.what()).substr(0, 200)}};
    }
    std::cout << said.dump() << std::endl;
  }
}
