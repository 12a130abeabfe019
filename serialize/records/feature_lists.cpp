// The three kinds of lists; see feature_lists.h.
#include "rill/serialize/records/feature_lists.h"

namespace rill {
namespace {

template <class T>
void fill_list(std::vector<T>& list, const Tensor& with, int64_t n, const Where& where) {
  if (!with.defined()) return list.resize(list.size() + size_t(n));
  const std::vector<T> values = with.to_vector<T>(where);  // one for all elements, or those of a step
  for (int64_t k = 0; k < n; ++k) list.push_back(values[size_t(k) % values.size()]);
}

template <class T>
void append_part(std::vector<T>& list, const std::vector<T>& other, size_t begin, size_t end) {
  list.insert(list.end(), other.begin() + ptrdiff_t(begin), other.begin() + ptrdiff_t(end));
}

}  // namespace

bool FeatureElements::append(const proto::Feature& f) {
  switch (f.kind_case()) {
    case proto::Feature::kBytesList:
      if (dtype_ != DType::string) return false;
      texts_.insert(texts_.end(), f.bytes_list().value().begin(), f.bytes_list().value().end());
      return true;
    case proto::Feature::kFloatList:
      if (dtype_ != DType::f32) return false;
      floats_.insert(floats_.end(), f.float_list().value().begin(), f.float_list().value().end());
      return true;
    case proto::Feature::kInt64List:
      if (dtype_ != DType::i64) return false;
      wholes_.insert(wholes_.end(), f.int64_list().value().begin(), f.int64_list().value().end());
      return true;
    case proto::Feature::KIND_NOT_SET: break;
  }
  return true;
}

void FeatureElements::fill(const Tensor& with, int64_t n, const Where& where) {
  if (dtype_ == DType::f32) fill_list(floats_, with, n, where);
  else if (dtype_ == DType::i64) fill_list(wholes_, with, n, where);
  else fill_list(texts_, with, n, where);
}

void FeatureElements::append(const FeatureElements& other, size_t begin, size_t end) {
  if (dtype_ == DType::f32) append_part(floats_, other.floats_, begin, end);
  else if (dtype_ == DType::i64) append_part(wholes_, other.wholes_, begin, end);
  else append_part(texts_, other.texts_, begin, end);
}

size_t FeatureElements::size() const { return floats_.size() + wholes_.size() + texts_.size(); }  // two are empty

Tensor FeatureElements::tensor(const Shape& shape, const Where& where) const {
  if (dtype_ == DType::f32) return rill::tensor(floats_, shape, TensorOptions{}, where);
  if (dtype_ == DType::i64) return rill::tensor(wholes_, shape, TensorOptions{}, where);
  return rill::tensor(texts_, shape, TensorOptions{}, where);
}

uint64_t least_bytes(const Tensor& t) {
  if (!t.defined() || t.is_symbolic() || t.dtype() == DType::string) return 0;
  return uint64_t(t.size()) * (is_floating(t.dtype()) ? sizeof(float) : 1);  // a varint has a byte or more
}

int64_t count_of(const proto::Feature& f) {
  return f.bytes_list().value_size() + f.float_list().value_size() + f.int64_list().value_size();
}

std::string kind_of(const proto::Feature& f) {
  switch (f.kind_case()) {
    case proto::Feature::kBytesList: return "string";
    case proto::Feature::kFloatList: return "f32";
    case proto::Feature::kInt64List: return "i64";
    case proto::Feature::KIND_NOT_SET: break;
  }
  return "nothing";
}

proto::Feature to_feature(const std::string& name, const Tensor& t, std::string_view op, const Where& where) {
  proto::Feature f;
  if (!t.defined() || t.is_symbolic())
    fail(op, "'" + name + "' has no elements to write: " + (t.defined() ? to_string(t.spec()) : "an undefined tensor"),
         where);
  if (t.dtype() == DType::string) {
    for (std::string& s : t.to_vector<std::string>(where)) f.mutable_bytes_list()->add_value(std::move(s));
    f.mutable_bytes_list();  // an empty list has a kind too
  } else if (is_floating(t.dtype())) {
    for (float v : t.to_vector<float>(where)) f.mutable_float_list()->add_value(v);
    f.mutable_float_list();
  } else if (is_integer(t.dtype()) || is_bool(t.dtype())) {
    if (t.dtype() == DType::u64)
      for (uint64_t v : t.to_vector<uint64_t>(where))
        if (v > uint64_t(INT64_MAX))
          fail(op, "'" + name + "' holds " + std::to_string(v) + ", and a feature's integers are i64", where);
    for (int64_t v : t.to_vector<int64_t>(where)) f.mutable_int64_list()->add_value(v);
    f.mutable_int64_list();
  } else {
    fail(op, "'" + name + "' is " + to_string(t.spec()) + ". a feature holds real numbers or texts", where);
  }
  return f;
}

}  // namespace rill
