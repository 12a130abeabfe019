// print and assert_that: records without outputs, whose `call` has the effect.
#include "rill/ops/effects.h"

#include <fmt/format.h>

#include <cstdio>

#include "rill/devices/params/read_attrs.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"

namespace rill {
namespace {

struct PrintAttrs {
  std::string format;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("format", s.format);
  }
};

struct AssertAttrs {
  std::string message;
  std::string op = {};  // of a function of rill that checks an operand: its name
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("message", s.message);
    if (!s.op.empty()) v("op", s.op);
  }
};

void hidden_fields(AssertAttrs& a, AttrValues& v) { v.set_if_given("op", a.op); }

const ReadableAttrs readable_print(std::type_identity<PrintAttrs>(), "print");
const ReadableAttrs readable_assert(std::type_identity<AssertAttrs>(), "assert_that");

// Parses a format: text(char) for literal text, value() for each "{}". Returns the position of an invalid brace, or
// npos.
template <class Text, class Value>
size_t walk_format(const std::string& format, Text&& text, Value&& value) {
  for (size_t i = 0; i < format.size(); ++i) {
    char c = format[i], next = i + 1 < format.size() ? format[i + 1] : '\0';
    if (c != '{' && c != '}') text(c);
    else if (next == c) text(c), ++i;
    else if (c == '{' && next == '}') value(), ++i;
    else return i;
  }
  return std::string::npos;
}

std::string fault_at(const std::string& format, size_t brace) {
  const size_t end = format[brace] == '{' ? format.find_first_of("{}", brace + 1) : std::string::npos;
  if (end == std::string::npos || format[end] == '{')
    return "the format has a single brace. write {} for a tensor, {{ or }} for a brace";
  return fmt::format(
      "the format has {}, and tensors are written in one way. write {{}} for a tensor, {{{{ or }}}} for a "
      "brace",
      format.substr(brace, end - brace + 1));
}

OutSpecs infer_print(const InferArgs& args) {
  const std::string& format = args.attrs.as<PrintAttrs>().format;
  int placeholders = 0;
  if (const size_t brace = walk_format(format, [](char) {}, [&] { ++placeholders; }); brace != std::string::npos)
    args.reject(fault_at(format, brace));
  if (placeholders != args.count())
    args.reject(fmt::format("the format has {} {{}} for {} tensors. give one each", placeholders, args.count()));
  return {};
}

Tensors call_print(Operands in, AttrsView attrs) {
  std::string line;
  size_t next = 0;
  walk_format(attrs.as<PrintAttrs>().format, [&](char c) { line += c; }, [&] { line += to_string(*in[next++]); });
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);  // in one write, so that lines of threads do not mix
  return {};
}

OutSpecs infer_assert(const InferArgs& args) {
  if (args.count() == 0 || args[0].dtype != DType::boolean || !args[0].shape.empty())
    args.reject("the condition must be a bool scalar. compare something, or reduce with all() or any()");
  return {};
}

[[noreturn]] void fail_elements(std::string_view op, std::string_view message, const Tensor& value,
                                const Where& where) {
  fail(op, fmt::format("{}. got {}", message, to_string(value)), where);
}

Tensors call_assert(Operands in, AttrsView attrs) {
  if (in[0]->item<bool>()) return {};
  const AssertAttrs& a = attrs.as<AssertAttrs>();
  if (!a.op.empty()) fail_elements(a.op, a.message, *in[1], Where());
  std::string values;
  for (const Tensor* t : in.subspan(1)) values += (values.empty() ? ". values: " : ", ") + to_string(*t);
  fail("assert_that", fmt::format("it does not hold that {}{}", a.message, values));
}

// It holds if it holds for every row.
Tensors batch_assert(const BatchArgs& a) {
  const Tensor holds = a.batched[0] ? rill::all(a.in[0]) : a.in[0];
  SmallVec<const Tensor*, 8> in{&holds};
  for (const Tensor& t : a.in.subspan(1)) in.push_back(&t);
  return apply(a.op, in, a.attrs, a.where);
}

constexpr std::string_view nothing_to_differentiate = "it gives nothing";

const Op print_op({.name = "print",
                   .doc = "writes the format, with the tensors in it, to stderr",
                   .dtypes = every_set,
                   .inputs = -1,
                   .outputs = 0,
                   .infer = infer_print,
                   .no_gradient = nothing_to_differentiate,
                   .batch = batch_by_loop,
                   .call = call_print,
                   .effect = true,
                   .exported = {"", "PrintV2"}});

const Op assert_op({.name = "assert_that",
                    .doc = "fails, naming the message and the other operands, unless the first is true",
                    .dtypes = bool_set,
                    .inputs = -1,
                    .outputs = 0,
                    .infer = infer_assert,
                    .no_gradient = nothing_to_differentiate,
                    .batch = batch_assert,
                    .call = call_assert,
                    .effect = true,
                    .exported = {"", "Assert"}});

void run(const Op& op, const std::vector<Tensor>& in, AttrsView attrs, const Where& where) {
  CallerScope caller(where);
  SmallVec<const Tensor*, 8> operands;
  for (const Tensor& t : in) operands.push_back(&t);
  apply(op, Operands(operands.data(), operands.size()), attrs, where);
}

}  // namespace

void detail::print(const TextArg& format, const std::vector<Tensor>& values) {
  run(print_op, values, PrintAttrs{format.text}, format.where);
}

void detail::assert_that(const Tensor& pred, const TextArg& message, const std::vector<Tensor>& values) {
  std::vector<Tensor> in{pred};
  in.insert(in.end(), values.begin(), values.end());
  run(assert_op, in, AssertAttrs{message.text}, message.where);
}

void require_elements(const Callback<Tensor(const Tensor&)>& holds, std::string_view op, std::string message,
                      const Tensor& value, const Where& where) {
  if (value.is_symbolic())
    return run(assert_op, {holds(value), value}, AssertAttrs{std::move(message), std::string(op)}, where);
  EagerScope eager;
  PauseTapes pause;
  if (!holds(value).item<bool>()) fail_elements(op, message, value, where);
}

}  // namespace rill
