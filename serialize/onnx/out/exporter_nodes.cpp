// Used by rules to append to a graph: nodes, initializers, computed sizes, names.
#include "rill/serialize/onnx/out/exporter.h"

#include <fmt/format.h>

#include <set>

#include "rill/devices/params/attr_list.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"

namespace rill::onnx_out {

onnx::TensorProto::DataType element_type(DType dtype) {
  using P = onnx::TensorProto;
  switch (dtype) {
    case DType::boolean: return P::BOOL;
    case DType::i8: return P::INT8;
    case DType::i16: return P::INT16;
    case DType::i32: return P::INT32;
    case DType::i64: return P::INT64;
    case DType::u8: return P::UINT8;
    case DType::u16: return P::UINT16;
    case DType::u32: return P::UINT32;
    case DType::u64: return P::UINT64;
    case DType::f16: return P::FLOAT16;
    case DType::bf16: return P::BFLOAT16;
    case DType::f32: return P::FLOAT;
    case DType::f64: return P::DOUBLE;
    case DType::c64: return P::COMPLEX64;
    case DType::c128: return P::COMPLEX128;
    case DType::string: return P::STRING;
    case DType::f8_e4m3fn: return P::FLOAT8E4M3FN;
    case DType::f8_e5m2: return P::FLOAT8E5M2;
  }
  return P::UNDEFINED;
}

// --- Names -----------------------------------------------------------------------------------------------------------

std::string Exporter::fresh(const std::string& wanted) { return names_.add(wanted); }

std::string Exporter::size_name(const std::string& size) const {
  const auto named = options_.size_names.find(size);
  return named == options_.size_names.end() ? size : named->second;
}

void Exporter::fill(onnx::ValueInfoProto& info, const std::string& name, const Spec& spec) const {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(element_type(spec.dtype));
  auto& shape = *type.mutable_shape();
  for (Dim d : spec.shape) {
    auto& dim = *shape.add_dim();
    if (!d.is_open()) dim.set_dim_value(d.plain());
    else if (dims_ && dims_->knows(d) && dims_->at(d).kind != DimTable::Kind::place && dims_->has_whole_text(d))
      dim.set_dim_param(size_name(dims_->text(d)));
  }
}

// --- Nodes -----------------------------------------------------------------------------------------------------------

namespace {
void set(onnx::AttributeProto& p, const Attribute& a) {
  using P = onnx::AttributeProto;
  p.set_name(a.name);
  if (const auto* i = std::get_if<int64_t>(&a.value)) p.set_i(*i), p.set_type(P::INT);
  else if (const auto* f = std::get_if<double>(&a.value)) p.set_f(float(*f)), p.set_type(P::FLOAT);
  else if (const auto* s = std::get_if<std::string>(&a.value)) p.set_s(*s), p.set_type(P::STRING);
  else if (const auto* v = std::get_if<std::vector<int64_t>>(&a.value)) {
    for (int64_t i : *v) p.add_ints(i);
    p.set_type(P::INTS);
  } else {
    p.mutable_g()->Swap(std::get<onnx::GraphProto*>(a.value));
    p.set_type(P::GRAPH);
  }
}
}  // namespace

Values Exporter::ops(std::string_view type, const Values& in, const Attributes& attributes,
                     const std::vector<DType>& out) {
  if (type == "Equal" && in[0].dtype == DType::string) need_.at_least(19, "Equal of strings");
  onnx::NodeProto& n = *now_->proto->add_node();
  const std::string base = node_ && !node_->scope.empty() ? node_->scope + "/" + std::string(type) : std::string(type);
  n.set_op_type(std::string(type));
  n.set_name(fresh(base));
  size_t given = in.size();  // operands that are left out at the end need no name
  while (given > 0 && in[given - 1].name.empty()) --given;
  for (size_t i = 0; i < given; ++i) n.add_input(in[i].name);
  Values results;
  for (size_t k = 0; k < out.size(); ++k) {
    results.push_back({fresh(n.name() + ":" + std::to_string(k)), out[k]});
    n.add_output(results.back().name);
    now_->made.insert(results.back().name);
  }
  for (const Attribute& a : attributes) set(*n.add_attribute(), a);
  if (node_ && !node_->where.empty()) n.set_doc_string(node_->where);
  return results;
}

Value Exporter::op(std::string_view type, const Values& in, const Attributes& attributes, std::optional<DType> out) {
  return ops(type, in, attributes, {out ? *out : in[0].dtype})[0];
}

Value Exporter::cast(const Value& v, DType dtype) {
  if (v.dtype == dtype) return v;
  Attributes attributes{{"to", int64_t(element_type(dtype))}};
  if (is_float8(dtype)) attributes.push_back({"saturate", int64_t(0)});
  return op("Cast", {v}, attributes, dtype);
}

Value Exporter::transposed(const Value& v, const std::vector<int64_t>& axes) {
  bool moves = false;
  for (size_t i = 0; i < axes.size(); ++i) moves |= axes[i] != int64_t(i);
  return moves ? op("Transpose", {v}, {{"perm", axes}}) : v;
}

Value Exporter::reshaped(const Value& v, std::span<const Dim> shape) {
  bool rest = false;  // one size is -1, beside which a 0 would be ambiguous
  for (Dim d : shape) rest |= !d.is_open() && d.plain() == -1;
  return op("Reshape", {v, sizes(shape)}, rest ? Attributes{} : Attributes{{"allowzero", int64_t(1)}});
}

Value Exporter::cut(const Value& v, int64_t axis, const Value& start, const Value& stop) {
  return op("Slice", {v, start, stop, ints({axis})});
}

// --- Initializers ----------------------------------------------------------------------------------------------------

void fill(onnx::TensorProto& p, const Tensor& t) {
  p.set_data_type(element_type(t.dtype()));
  for (Dim d : t.shape()) p.add_dims(d.plain());
  if (t.dtype() == DType::string) {
    for (std::string& s : t.to_vector<std::string>()) p.add_string_data(std::move(s));
    return;
  }
  const Tensor host = t.to(Device()).contiguous();
  p.set_raw_data(host.rep()->data, size_t(host.size()) * size_of(host.dtype()));
}

Value Exporter::constant(const Tensor& t) {
  constexpr size_t shared_bytes = 1024;  // larger ones are weights, each with a name
  onnx::TensorProto p;
  onnx_out::fill(p, t);
  const std::string key = p.ByteSizeLong() <= shared_bytes ? p.SerializeAsString() : "";
  if (auto known = constants_.find(key); !key.empty() && known != constants_.end()) return known->second;
  const Value v{fresh("constant"), t.dtype()};
  p.set_name(v.name);
  *main_.proto->add_initializer() = std::move(p);
  if (!key.empty()) constants_[key] = v;
  return v;
}

Value Exporter::number(double x, DType dtype) {
  const EagerScope eager;
  return constant(full({}, x, {.dtype = dtype}));
}

Value Exporter::ints(const std::vector<int64_t>& values) {
  const EagerScope eager;
  return constant(tensor(values, {.dtype = i64}));
}

// --- Sizes -----------------------------------------------------------------------------------------------------------

Value Exporter::sizes(std::span<const Dim> dims) {
  Values parts;
  std::vector<int64_t> plain;
  auto flush = [&] {
    if (!plain.empty()) parts.push_back(ints(plain));
    plain.clear();
  };
  for (Dim d : dims) {
    if (!d.is_open()) {
      plain.push_back(d.plain());
      continue;
    }
    flush();
    parts.push_back(open_size(d));
  }
  flush();
  if (parts.empty()) return ints({});
  return parts.size() == 1 ? parts[0] : op("Concat", parts, {{"axis", int64_t(0)}});
}

bool Exporter::can_write(Dim d) const {
  if (!dims_) return true;
  std::set<uint32_t> seen;  // expressions share their parts
  bool can = true;
  dims_->visit_parts(
      d, [&](Dim part) { return !can || seen.count(part.number()); },
      [&](Dim part, const DimTable::Expression& e) {
        seen.insert(part.number());
        if (e.kind != DimTable::Kind::place) return;
        const auto frame = frames_.find(e.place.trace);
        can = frame != frames_.end() && !frame->second->values[size_t(e.place.node)].empty();
        const Scope* s = now_;  // which sees the scopes around it, not those inside a loop
        while (can && s && s != &frame->second->scope) s = s->outer;
        can = can && s != nullptr;
      });
  return can;
}

const Value* Exporter::written_size(Dim d) const {
  for (const Scope* s = now_; s; s = s->outer)
    if (auto known = s->sizes.find(d.number()); known != s->sizes.end()) return &known->second;
  return nullptr;
}

Value Exporter::open_size(Dim d) {
  if (!dims_ || !dims_->knows(d)) return ints({d.hint()});  // of a trace that has ended
  dims_->visit_parts(
      d, [this](Dim part) { return written_size(part) != nullptr; },
      [this](Dim part, const DimTable::Expression& e) { write_size(part, e); });
  return *written_size(d);
}

void Exporter::write_size(Dim d, DimTable::Expression e) {
  auto size_of = [&](const Value& v, int64_t axis) {
    return op("Shape", {v}, {{"start", axis}, {"end", axis + 1}}, i64);
  };
  if (e.kind == DimTable::Kind::symbol) {
    const Inside inside(*this, main_);
    const OpenAxis& at = symbols_.at(e.symbol);
    main_.sizes[d.number()] = size_of(at.input, at.axis);
    return;
  }
  if (e.kind == DimTable::Kind::place) {
    Frame& f = *frames_.at(e.place.trace);
    const Inside inside(*this, f.scope);
    f.scope.sizes[d.number()] = size_of(value(f, {e.place.node, e.place.output}), e.place.axis);
    return;
  }
  constexpr std::string_view names[] = {"Add", "Sub", "Mul", "Div", "Mod", "Min", "Max"};
  const Values in{size(e.a), size(e.b)};
  Attributes attributes;
  if (e.op == Dim::Op::remainder) attributes = {{"fmod", int64_t(1)}};
  now_->sizes[d.number()] = op(names[int(e.op)], in, attributes);
}

}  // namespace rill::onnx_out
