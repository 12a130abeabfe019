// Examples into tensors; see examples.h. Start at parse_examples.
#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>

#include "rill/ops/apply.h"
#include "rill/serialize/examples.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/records/feature_lists.h"
#include "rill/serialize/records/quick_examples.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

using proto::Features;

// What is parsed, for messages.
struct Parse {
  std::string_view op;
  const Where& where;
  [[noreturn]] void reject(size_t example, const std::string& feature, const std::string& what) const {
    fail(op, "example " + std::to_string(example) + ", feature '" + feature + "': " + what, where);
  }
  template <class Message>
  std::vector<Message> decode(std::span<const std::string> examples) const {
    std::vector<Message> all(examples.size());
    for (size_t i = 0; i < examples.size(); ++i)
      if (!parse(examples[i], all[i]))
        fail(op,
             "example " + std::to_string(i) + ", " + std::to_string(examples[i].size()) + " bytes, is no " +
                 (std::is_same_v<Message, proto::Example> ? "tf.Example" : "tf.SequenceExample") +
                 ": the encoding is broken",
             where);
    return all;
  }
  void check(const std::string& name, const FeatureSpec& f) const {
    auto refuse = [&](const std::string& what) { fail(op, "feature '" + name + "': " + what, where); };
    if (f.dtype != DType::f32 && f.dtype != DType::i64 && f.dtype != DType::string)
      refuse("an Example holds f32, i64 and string, not " + std::string(rill::name(f.dtype)) +
             ". name what the file has and use astype() behind it");
    Spec spec;
    spec.shape = f.shape;
    spec.dtype = f.dtype;
    if (!has_sound_size(spec)) refuse("the shape " + to_string(spec) + " has a size that cannot be");
    if (!f.missing.defined()) return;
    const bool one = f.missing.size() == 1;
    if (f.missing.dtype() != f.dtype || !(one || (f.kind == FeatureSpec::Kind::fixed && f.missing.shape() == f.shape)))
      refuse("what stands where there is none is " + to_string(f.missing.spec()) + ". expected " + to_string(spec) +
             " or one element of it");
  }
};

// The last value under a name, as in a map; null where there is none.
template <class Entries>
auto value_of(const Entries& entries, const std::string& name) -> decltype(&entries[0].value()) {
  for (int i = entries.size(); i-- > 0;)
    if (entries[i].key() == name) return &entries[i].value();
  return nullptr;
}

// The features of an Example, to be looked up by name: of many, by a table.
struct NamedFeatures {
  explicit NamedFeatures(const Features& f) : features(f) {
    constexpr int few = 16;
    if (f.feature().size() > few)
      for (const Features::Entry& entry : f.feature()) by_name[entry.key()] = &entry.value();
  }
  const Features& features;
  std::unordered_map<std::string_view, const proto::Feature*> by_name;  // empty where they are few
};

// The feature of an Example, or null where it has none, or one that holds nothing.
const proto::Feature* find(const NamedFeatures& features, const std::string& name) {
  const proto::Feature* found = nullptr;
  if (features.by_name.empty()) found = value_of(features.features.feature(), name);
  else if (const auto at = features.by_name.find(name); at != features.by_name.end()) found = at->second;
  return !found || found->kind_case() == proto::Feature::KIND_NOT_SET ? nullptr : found;
}

void append(FeatureElements& all, const proto::Feature& f, const Parse& parse, size_t example, const std::string& name,
            DType dtype) {
  if (!all.append(f)) parse.reject(example, name, "has " + kind_of(f) + ". expected " + std::string(rill::name(dtype)));
}

Shape with_front(const Shape& inner, std::initializer_list<int64_t> front) {
  Shape shape;
  for (int64_t size : front) shape.push_back(size);
  for (int64_t size : inner) shape.push_back(size);
  return shape;
}

Tensor whole_numbers(const std::vector<int64_t>& values, const Where& where) {
  return tensor(values, Shape{int64_t(values.size())}, TensorOptions{}, where);
}

// --- Kinds of features -----------------------------------------------------------------------------------------------

Tensor fixed(const std::vector<NamedFeatures>& examples, const std::string& name, const FeatureSpec& f,
             const Parse& parse) {
  FeatureElements all(f.dtype);
  const int64_t each = f.shape.numel();
  for (size_t i = 0; i < examples.size(); ++i) {
    const proto::Feature* found = find(examples[i], f.key.empty() ? name : f.key);
    if (!found && !f.missing.defined())
      parse.reject(i, name, "is missing. fixed_feature() takes what shall stand in its place");
    if (!found) {
      all.fill(f.missing, each, parse.where);
      continue;
    }
    if (count_of(*found) != each)
      parse.reject(i, name,
                   "has " + std::to_string(count_of(*found)) + " elements. expected " + std::to_string(each) +
                       ", of the shape " + to_string(f.shape));
    append(all, *found, parse, i, name, f.dtype);
  }
  return all.tensor(with_front(f.shape, {int64_t(examples.size())}), parse.where);
}

// Rows of whole elements of f.shape, filled up to the longest. `counts`: the elements of each row.
Tensor fill_up(const FeatureElements& all, const std::vector<int64_t>& counts, const FeatureSpec& f,
               const Where& where) {
  const int64_t each = f.shape.numel();
  const int64_t longest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  FeatureElements out(f.dtype);
  size_t begin = 0;
  for (int64_t n : counts) {
    out.append(all, begin, begin + size_t(n * each));
    out.fill(f.missing, (longest - n) * each, where);
    begin += size_t(n * each);
  }
  return out.tensor(with_front(f.shape, {int64_t(counts.size()), longest}), where);
}

void padded(const std::vector<NamedFeatures>& examples, const std::string& name, const FeatureSpec& f,
            const Parse& parse, ParsedExamples& out) {
  FeatureElements all(f.dtype);
  std::vector<int64_t> counts;
  const int64_t each = f.shape.numel();
  for (size_t i = 0; i < examples.size(); ++i) {
    const proto::Feature* found = find(examples[i], f.key.empty() ? name : f.key);
    const int64_t n = found ? count_of(*found) : 0;
    if (each == 0 ? n != 0 : n % each != 0)
      parse.reject(i, name,
                   "has " + std::to_string(n) + " elements. expected a multiple of " + std::to_string(each) +
                       ", of the shape " + to_string(f.shape));
    if (found) append(all, *found, parse, i, name, f.dtype);
    counts.push_back(each ? n / each : 0);
  }
  out.tensors[name] = fill_up(all, counts, f, parse.where);
  out.lengths[name] = whole_numbers(counts, parse.where);
}

// The lengths of the rows that a partition makes of `below` things.
std::vector<int64_t> row_lengths(const Partition& p, const proto::Feature* found, int64_t below, const Parse& parse,
                                 size_t example) {
  using Kind = Partition::Kind;
  std::vector<int64_t> lengths;
  if (p.kind == Kind::uniform_row_length) {
    if (p.length < 1 || below % p.length)
      parse.reject(example, p.key,
                   "rows of " + std::to_string(p.length) + " cannot be made of " + std::to_string(below));
    return std::vector<int64_t>(size_t(below / p.length), p.length);
  }
  if (found && found->kind_case() != proto::Feature::kInt64List)
    parse.reject(example, p.key, "has " + kind_of(*found) + ". the partition of rows is i64");
  std::vector<int64_t> v;
  if (found) v.assign(found->int64_list().value().begin(), found->int64_list().value().end());
  auto broken = [&](const std::string& what) { parse.reject(example, p.key, what); };
  // Differences of neighbours, with what stands before the first and behind the last; sums cannot overflow, for all lie
  // between 0 and `below`.
  auto differences = [&](int64_t begin, bool closed) {
    int64_t before = begin;
    for (int64_t end : v) {
      if (end < before || end > below)
        broken(std::to_string(end) + " among the partition of rows. expected " + std::to_string(before) + " to " +
               std::to_string(below) + ", in order");
      lengths.push_back(end - before);
      before = end;
    }
    if (closed && before != below)
      broken("the rows end at " + std::to_string(before) + ", and there are " + std::to_string(below) + " values");
  };
  switch (p.kind) {
    case Kind::row_lengths:
      for (int64_t sum = 0; int64_t n : v) {
        if (n < 0 || n > below - sum) broken("a row of " + std::to_string(n) + " is more than is left of the values");
        sum += n;
        lengths.push_back(n);
      }
      break;
    case Kind::row_limits: differences(0, true); break;
    case Kind::row_splits:
      if (!v.empty() && v[0] != 0) broken("row splits start at 0, not " + std::to_string(v[0]));
      differences(0, true);
      if (!lengths.empty()) lengths.erase(lengths.begin());
      break;
    case Kind::row_starts:
      if (!v.empty() && v[0] != 0) broken("row starts begin with 0, not " + std::to_string(v[0]));
      v.push_back(below);
      differences(0, true);
      lengths.erase(lengths.begin());
      break;
    case Kind::value_rowids:
      if (int64_t(v.size()) != below)
        broken(std::to_string(v.size()) + " row ids for " + std::to_string(below) + " values");
      for (int64_t id : v) {
        const int64_t most = below + (1 << 16);  // the rows that no value is in take memory too
        if (id < int64_t(lengths.size()) - 1 || id < 0 || id > most)
          broken("the row id " + std::to_string(id) + " where ids ascend from 0, to no more than " +
                 std::to_string(most) + ", 65536 above the number of values");
        lengths.resize(std::max(lengths.size(), size_t(id) + 1));
        ++lengths.back();
      }
      break;
    case Kind::uniform_row_length: break;
  }
  int64_t sum = 0;
  for (int64_t n : lengths) sum += n;
  if (sum != below) broken("the rows hold " + std::to_string(sum) + " values, and there are " + std::to_string(below));
  return lengths;
}

Ragged ragged(const std::vector<NamedFeatures>& examples, const std::string& name, const FeatureSpec& f,
              const Parse& parse) {
  FeatureElements all(f.dtype);
  std::vector<std::vector<int64_t>> splits(f.partitions.size() + 1, std::vector<int64_t>{0});
  for (size_t i = 0; i < examples.size(); ++i) {
    const proto::Feature* found = find(examples[i], f.key.empty() ? name : f.key);
    int64_t below = found ? count_of(*found) : 0;
    if (found) append(all, *found, parse, i, name, f.dtype);
    for (size_t level = f.partitions.size(); level-- > 0;) {  // from the values outwards
      const Partition& p = f.partitions[level];
      const auto lengths = row_lengths(p, find(examples[i], p.key), below, parse, i);
      for (int64_t n : lengths) splits[level + 1].push_back(splits[level + 1].back() + n);
      below = int64_t(lengths.size());
    }
    splits[0].push_back(splits[0].back() + below);
  }
  Ragged out{all.tensor(Shape{int64_t(all.size())}, parse.where), {}};
  for (const auto& level : splits) out.row_splits.push_back(whole_numbers(level, parse.where));
  return out;
}

void parse_all(const std::vector<NamedFeatures>& examples, const std::map<std::string, FeatureSpec>& features,
               const Parse& parse, ParsedExamples& out) {
  for (const auto& [name, f] : features) {
    parse.check(name, f);
    if (f.kind == FeatureSpec::Kind::fixed) out.tensors[name] = fixed(examples, name, f, parse);
    else if (f.kind == FeatureSpec::Kind::padded) padded(examples, name, f, parse, out);
    else out.ragged[name] = ragged(examples, name, f, parse);
  }
}

// --- Sequences -------------------------------------------------------------------------------------------------------

void sequence(const std::vector<proto::SequenceExample>& examples, const std::string& name, const FeatureSpec& f,
              const Parse& parse, ParsedExamples& out) {
  const bool stacked = f.kind == FeatureSpec::Kind::fixed || f.kind == FeatureSpec::Kind::padded;
  if (!f.partitions.empty())
    fail(parse.op, "feature '" + name + "': the values of a step have no rows within. use variable_feature()",
         parse.where);
  FeatureElements all(f.dtype);
  std::vector<int64_t> steps, outer = {0}, inner = {0};
  for (size_t i = 0; i < examples.size(); ++i) {
    const proto::FeatureList* found =
        value_of(examples[i].feature_lists().feature_list(), f.key.empty() ? name : f.key);
    const int n = found ? found->feature_size() : 0;
    for (int s = 0; s < n; ++s) {
      const proto::Feature& feature = found->feature(s);
      if (stacked && count_of(feature) != f.shape.numel())
        parse.reject(i, name,
                     "step " + std::to_string(s) + " has " + std::to_string(count_of(feature)) +
                         " elements. expected " + std::to_string(f.shape.numel()));
      append(all, feature, parse, i, name, f.dtype);
      inner.push_back(int64_t(all.size()));
    }
    steps.push_back(n);
    outer.push_back(outer.back() + n);
  }
  if (stacked) {
    out.tensors[name] = fill_up(all, steps, f, parse.where);
    out.lengths[name] = whole_numbers(steps, parse.where);
  } else {
    out.ragged[name] = {all.tensor(Shape{int64_t(all.size())}, parse.where),
                        {whole_numbers(outer, parse.where), whole_numbers(inner, parse.where)}};
  }
}

}  // namespace

FeatureSpec fixed_feature(DType dtype, Shape shape, Tensor missing) {
  return {FeatureSpec::Kind::fixed, dtype, std::move(shape), std::move(missing)};
}
FeatureSpec padded_feature(DType dtype, Shape shape, Tensor padding) {
  return {FeatureSpec::Kind::padded, dtype, std::move(shape), std::move(padding)};
}
FeatureSpec variable_feature(DType dtype) { return {FeatureSpec::Kind::variable, dtype}; }
FeatureSpec ragged_feature(DType dtype, std::vector<Partition> partitions, std::string key) {
  return {FeatureSpec::Kind::ragged, dtype, {}, {}, std::move(key), std::move(partitions)};
}

namespace {
void add_feature(Features& features, const std::string& name, const Tensor& t, std::string_view op,
                 const Where& where) {
  Features::Entry& entry = *features.add_feature();
  entry.set_key(name);
  *entry.mutable_value() = to_feature(name, t, op, where);
}
}  // namespace

std::string make_example(const NamedMap<Tensor>& features, Where where) {
  CallerScope caller(where);
  EagerScope eager;
  uint64_t least = 0;
  for (const auto& [name, t] : features) least += least_bytes(t);
  check_message_size(least, "make_example", where);
  proto::Example e;
  e.mutable_features();
  for (const auto& [name, t] : features) add_feature(*e.mutable_features(), name, t, "make_example", where);
  return bytes_of(e, "make_example", where);
}

NamedMap<Tensor> read_example(std::string_view bytes, Where where) {
  CallerScope caller(where);
  EagerScope eager;
  const Parse parse{"read_example", where};
  const auto examples = parse.decode<proto::Example>(std::vector{std::string(bytes)});
  NamedMap<Tensor> out;
  for (const Features::Entry& entry : examples[0].features().feature()) {
    const proto::Feature& f = entry.value();
    const bool texts = f.kind_case() == proto::Feature::kBytesList;
    FeatureElements all(texts ? DType::string : f.kind_case() == proto::Feature::kInt64List ? DType::i64 : DType::f32);
    all.append(f);
    out[entry.key()] = all.tensor(Shape{int64_t(all.size())}, where);
  }
  return out;
}

namespace {
ParsedExamples parsed(std::span<const std::string> examples, const std::map<std::string, FeatureSpec>& features,
                      const Where& where) {
  const EagerScope eager;
  const Parse parse{"parse_examples", where};
  ParsedExamples quick;
  for (const auto& [name, f] : features) parse.check(name, f);
  if (parse_quickly(examples, features, quick)) return quick;
  const auto decoded = parse.decode<proto::Example>(examples);
  std::vector<NamedFeatures> all;
  for (const auto& e : decoded) all.emplace_back(e.features());
  ParsedExamples out;
  parse_all(all, features, parse, out);
  return out;
}
}  // namespace

ParsedExamples parse_examples(const std::vector<std::string>& examples,
                              const std::map<std::string, FeatureSpec>& features, Where where) {
  const CallerScope caller(where);
  return parsed(examples, features, where);
}
ParsedExamples detail::parse_tensor_of_examples(const Tensor& examples,
                                                const std::map<std::string, FeatureSpec>& features,
                                                const Where& where) {
  const CallerScope caller(where);
  require_defined("parse_examples", examples, "the examples", where);
  if (examples.dtype() != DType::string || examples.ndim() != 1)
    fail("parse_examples",
         "takes a string tensor [examples]: a batch of records. got " + to_string(examples.spec()) +
             (examples.dtype() == DType::string ? ", which reshape({-1}) makes of one" : ""),
         where);
  const Tensor dense = examples.contiguous();
  return parsed(dense.data<std::string>(where), features, where);
}

std::string make_sequence_example(const NamedMap<Tensor>& context, const NamedMap<std::vector<Tensor>>& sequences,
                                  Where where) {
  CallerScope caller(where);
  EagerScope eager;
  constexpr std::string_view op = "make_sequence_example";
  uint64_t least = 0;
  for (const auto& [name, t] : context) least += least_bytes(t);
  for (const auto& [name, steps] : sequences)
    for (const Tensor& t : steps) least += least_bytes(t);
  check_message_size(least, op, where);
  proto::SequenceExample e;
  for (const auto& [name, t] : context) add_feature(*e.mutable_context(), name, t, op, where);
  for (const auto& [name, steps] : sequences) {
    proto::FeatureLists::Entry& entry = *e.mutable_feature_lists()->add_feature_list();
    entry.set_key(name);
    proto::FeatureList& list = *entry.mutable_value();
    for (const Tensor& t : steps) *list.add_feature() = to_feature(name, t, op, where);
  }
  return bytes_of(e, op, where);
}

ParsedExamples parse_sequence_examples(const std::vector<std::string>& examples,
                                       const std::map<std::string, FeatureSpec>& context,
                                       const std::map<std::string, FeatureSpec>& sequences, Where where) {
  CallerScope caller(where);
  EagerScope eager;
  const Parse parse{"parse_sequence_examples", where};
  const auto decoded = parse.decode<proto::SequenceExample>(examples);
  std::vector<NamedFeatures> all;
  for (const auto& e : decoded) all.emplace_back(e.context());
  ParsedExamples out;
  parse_all(all, context, parse, out);
  for (const auto& [name, f] : sequences) {
    parse.check(name, f);
    if (out.tensors.count(name) || out.ragged.count(name))
      fail(parse.op, "'" + name + "' is named in the context and among the sequences", where);
    sequence(decoded, name, f, parse, out);
  }
  return out;
}

}  // namespace rill
