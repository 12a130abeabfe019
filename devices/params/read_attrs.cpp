// Setting fields from names and values, and the structs of this folder that files may contain.
#include "rill/devices/params/read_attrs.h"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <optional>

#include "rill/devices/params/attention_params.h"
#include "rill/devices/params/contraction_params.h"
#include "rill/devices/params/conv_params.h"
#include "rill/devices/params/elementwise_params.h"
#include "rill/devices/params/nn_params.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/params/shape_params.h"

namespace rill {
namespace {

template <class T>
std::optional<T> number_in(std::string_view text) {
  T value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Parses "7", "-0.5", "nan", "1+2i", "true", as FillValue::text() writes them for some dtype.
std::optional<FillValue> fill_value_in(std::string_view text) {
  if (text == "true") return FillValue{1, 1, 0};
  if (text == "false") return FillValue{0, 0, 0};
  if (text.ends_with('i')) {
    text.remove_suffix(1);
    // The sign before the imaginary part, not one of an exponent.
    size_t sign = text.find_last_of("+-");
    while (sign != text.npos && sign > 0 && text[sign - 1] == 'e') sign = text.find_last_of("+-", sign - 1);
    if (sign == text.npos || sign == 0) return std::nullopt;
    const auto real = number_in<double>(text.substr(0, sign));
    const auto imag = number_in<double>(text.substr(text[sign] == '+' ? sign + 1 : sign));
    if (!real || !imag) return std::nullopt;
    return FillValue{0, *real, *imag};
  }
  const auto real = number_in<double>(text);
  if (!real) return std::nullopt;
  FillValue v{0, *real, 0};
  if (const auto whole = number_in<int64_t>(text)) v.whole = *whole;
  else if (const auto large = number_in<uint64_t>(text)) v.whole = int64_t(*large);
  return v;
}

}  // namespace

AttrValues::AttrValues(const AttrList& list, DType operand, const ReadDim& read_dim)
    : list_(list), operand_(operand), read_dim_(read_dim), used_(list.size(), 0) {}

void AttrValues::reject(const char* name, std::string_view expected) {
  fail("attributes", fmt::format("expected '{}' to be {}", name, expected), Where());
}

bool AttrValues::has(const char* name) const {
  for (const auto& [key, value] : list_)
    if (key == name) return true;
  return false;
}

const AttrValue& AttrValues::at(const char* name) {
  for (size_t i = 0; i < list_.size(); ++i)
    if (list_[i].first == name) {
      used_[i] = 1;
      return list_[i].second;
    }
  fail("attributes", fmt::format("'{}' is missing", name), Where());
}

void AttrValues::finish() const {
  for (size_t i = 0; i < list_.size(); ++i)
    if (!used_[i])
      fail("attributes", fmt::format("'{}' is no attribute of this op", list_[i].first.substr(0, 80)), Where());
}

void AttrValues::set(const char* name, bool& v) {
  const AttrValue& given = at(name);
  if (const bool* b = std::get_if<bool>(&given)) v = *b;
  else if (const auto* text = std::get_if<std::string>(&given); text && (*text == "true" || *text == "false"))
    v = *text == "true";
  else reject(name, "true or false");
}

void AttrValues::set(const char* name, int64_t& v) {
  const AttrValue& given = at(name);
  if (const int64_t* n = std::get_if<int64_t>(&given)) return void(v = *n);
  const auto* text = std::get_if<std::string>(&given);
  const auto number = text ? number_in<int64_t>(*text) : std::nullopt;
  if (!number) reject(name, "a whole number");
  v = *number;
}

void AttrValues::set(const char* name, int& v) {
  int64_t whole = 0;
  set(name, whole);
  if (whole != int(whole)) reject(name, "a small number");
  v = int(whole);
}

void AttrValues::set(const char* name, double& v) {
  const AttrValue& given = at(name);
  if (const double* x = std::get_if<double>(&given)) return void(v = *x);
  if (const int64_t* n = std::get_if<int64_t>(&given)) return void(v = double(*n));
  const auto* text = std::get_if<std::string>(&given);
  const auto number = text ? number_in<double>(*text) : std::nullopt;
  if (!number) reject(name, "a number");
  v = *number;
}

void AttrValues::set(const char* name, std::string& v) {
  const auto* text = std::get_if<std::string>(&at(name));
  if (!text) reject(name, "text");
  v = *text;
}

void AttrValues::set(const char* name, DType& v) {
  const AttrValue& given = at(name);
  if (const DType* d = std::get_if<DType>(&given)) return void(v = *d);
  const auto* text = std::get_if<std::string>(&given);
  if (!text) reject(name, "a dtype");
  v = parse_dtype(*text);
}

void AttrValues::set(const char* name, Device& v) {
  std::string text;
  set(name, text);
  v = Device(text);
}

void AttrValues::set(const char* name, Dim& v) {
  const AttrValue& given = at(name);
  if (const int64_t* n = std::get_if<int64_t>(&given)) return void(v = *n);
  const auto* text = std::get_if<std::string>(&given);
  if (!text) reject(name, "a whole number");
  const auto number = number_in<int64_t>(*text);
  v = number ? Dim(*number) : read_dim_(*text);
}

void AttrValues::set(const char* name, Dims& v) {
  const auto* dims = std::get_if<Dims>(&at(name));
  if (!dims) reject(name, "a list of numbers");
  v = *dims;
}

void AttrValues::set(const char* name, FillValue& v) {
  std::string text;
  set(name, text);
  if (const auto value = fill_value_in(text)) return void(v = *value);
  const Dim whole = read_dim_(text);
  v = {whole, double(whole.hint()), 0};
}

int AttrValues::choice(const char* name, std::string_view (*text)(int), int count) {
  std::string given;
  set(name, given);
  for (int i = 0; i < count; ++i)
    if (text(i) == given) return i;
  reject(name, "one of its names");
}

// --- The structs that are known --------------------------------------------------------------------------------------

namespace {
constinit std::atomic<const ReadableAttrs*> first_readable = nullptr;
}

void ReadableAttrs::add() {
  next_ = first_readable;
  while (!first_readable.compare_exchange_weak(next_, this)) {  // another thread may be loading another library
  }
}

const ReadableAttrs* ReadableAttrs::find(const AttrsType* type) {
  for (const ReadableAttrs* r = first_readable; r; r = r->next_)
    if (r->type == type) return r;
  return nullptr;
}
const ReadableAttrs* ReadableAttrs::find(std::string_view op) {
  for (const ReadableAttrs* r = first_readable; r; r = r->next_)
    if (!r->op.empty() && r->op == op) return r;
  return nullptr;
}

// The number of enumerators. Static, not in an unnamed namespace: they are found by argument-dependent lookup.
static constexpr int enumerators(Layout) { return 2; }
static constexpr int enumerators(ScatterMode) { return 5; }

// Fields that `fields` does not list itself, or leaves out at their default.
static void hidden_fields(FullAttrs& a, AttrValues& v) {
  v.set("device", a.device);
  v.set_if_given("weak", a.weak);
}
static void hidden_fields(IotaAttrs& a, AttrValues& v) { v.set("device", a.device); }
static void hidden_fields(GatherAttrs& a, AttrValues& v) { v.set_if_given("skips", a.skips); }
static void hidden_fields(ScatterAttrs& a, AttrValues& v) { v.set_if_given("skips", a.where.skips); }
static void hidden_fields(PadAttrs& a, AttrValues& v) { a.dtype = v.operand(); }

namespace {

const ReadableAttrs readable[] = {
    ReadableAttrs(std::type_identity<AdamParams>()),      ReadableAttrs(std::type_identity<ArgReduceParams>()),
    ReadableAttrs(std::type_identity<AttentionParams>()), ReadableAttrs(std::type_identity<CastAttrs>()),
    ReadableAttrs(std::type_identity<ConcatAttrs>()),     ReadableAttrs(std::type_identity<ContractionParams>()),
    ReadableAttrs(std::type_identity<ConvParams>()),      ReadableAttrs(std::type_identity<CumulativeParams>()),
    ReadableAttrs(std::type_identity<FullAttrs>()),       ReadableAttrs(std::type_identity<GatherAttrs>()),
    ReadableAttrs(std::type_identity<IotaAttrs>()),       ReadableAttrs(std::type_identity<NameAttrs>()),
    ReadableAttrs(std::type_identity<NormParams>()),      ReadableAttrs(std::type_identity<PadAttrs>()),
    ReadableAttrs(std::type_identity<PoolParams>()),      ReadableAttrs(std::type_identity<RandomParams>()),
    ReadableAttrs(std::type_identity<ReduceParams>()),    ReadableAttrs(std::type_identity<ScatterAttrs>()),
    ReadableAttrs(std::type_identity<SearchParams>()),    ReadableAttrs(std::type_identity<ShapeAttrs>()),
    ReadableAttrs(std::type_identity<SliceAttrs>()),      ReadableAttrs(std::type_identity<SoftmaxParams>()),
    ReadableAttrs(std::type_identity<SortParams>()),      ReadableAttrs(std::type_identity<TopKParams>()),
    ReadableAttrs(std::type_identity<TransferAttrs>()),   ReadableAttrs(std::type_identity<TransposeAttrs>())};

}  // namespace

std::vector<std::pair<std::string, Dim>> open_fields(const Attrs& a) {
  class Collect final : public AttrRewriter {
   public:
    void field(const char* name, Dim& v) override {
      if (v.is_open()) found.emplace_back(name, v);
    }
    void field(const char*, Dims&) override {}
    void field(const char* name, FillValue& v, DType) override { field(name, v.whole); }
    std::vector<std::pair<std::string, Dim>> found;
  } collect;
  a.rewritten(collect);
  return std::move(collect.found);
}

}  // namespace rill
