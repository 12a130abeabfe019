// See cluster.h.
#include "rill/distribute/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "rill/devices/registry.h"
#include "rill/distribute/collectives.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/scopes.h"
#include "rill/tensor/settings.h"

namespace rill::distribute {
namespace {

constexpr std::string_view cluster_op = "distribute::Cluster";

// A value of JSON: a text or a number as written, a list, or fields.
struct JsonValue {
  enum class Kind { text, other, list, fields };
  Kind kind = Kind::other;
  std::string text = {};
  std::vector<std::pair<std::string, JsonValue>> items = {};  // those of a list have no names

  const JsonValue* find(std::string_view name) const {
    for (const auto& [key, value] : items)
      if (key == name) return &value;
    return nullptr;
  }
};

// The subset of JSON in TF_CONFIG: an escape in a text is the character after it, and numbers are words.
class JsonReader {
 public:
  JsonReader(std::string_view text, const Where& where) : text_(text), where_(where) {}
  JsonValue all() {
    JsonValue value = read(0);
    if (next() != '\0') reject("the end");
    return value;
  }

 private:
  char next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool takes(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void reject(std::string_view expected) const {
    fail(cluster_op, fmt::format("TF_CONFIG is no JSON: expected {} at character {} of '{}'", expected, at_ + 1, text_),
         where_);
  }
  JsonValue read(int depth) {
    if (depth > 20) reject("fewer brackets");
    JsonValue value;
    if (next() == '"') {
      value.kind = JsonValue::Kind::text, value.text = read_text();
    } else if (takes('[')) {
      value.kind = JsonValue::Kind::list;
      read_items(']', [&] { value.items.emplace_back("", read(depth + 1)); });
    } else if (takes('{')) {
      value.kind = JsonValue::Kind::fields;
      read_items('}', [&] {
        std::string name = read_text();
        if (!takes(':')) reject("':'");
        value.items.emplace_back(std::move(name), read(depth + 1));
      });
    } else {
      while (std::isalnum(static_cast<unsigned char>(next())) || next() == '-' || next() == '.' || next() == '+')
        value.text += text_[at_++];
      if (value.text.empty()) reject("a value");
    }
    return value;
  }
  template <class Item>
  void read_items(char end, const Item& item) {
    if (takes(end)) return;
    do item();
    while (takes(','));
    if (!takes(end)) reject(std::string("',' or '") + end + "'");
  }
  std::string read_text() {
    if (!takes('"')) reject("a text in quotes");
    std::string text;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      text += text_[at_];
    }
    if (at_ == text_.size()) reject("'\"'");
    ++at_;
    return text;
  }

  std::string_view text_;
  const Where& where_;
  size_t at_ = 0;
};

// The order in which ranks are given to jobs.
int place_of_job(const std::string& job) {
  constexpr std::string_view order[] = {"chief", "master", "worker", "ps", "evaluator"};
  return int(std::find(std::begin(order), std::end(order), job) - std::begin(order));
}

std::vector<std::pair<std::string, int64_t>> jobs_of(const JsonValue& config, const Where& where) {
  const JsonValue* cluster = config.find("cluster");
  if (!cluster || cluster->kind != JsonValue::Kind::fields)
    fail(cluster_op, "TF_CONFIG has no field 'cluster' with the jobs and their tasks", where);
  std::vector<std::pair<std::string, int64_t>> jobs;
  for (const auto& [job, tasks] : cluster->items) {
    if (tasks.kind != JsonValue::Kind::list && tasks.kind != JsonValue::Kind::fields)
      fail(cluster_op, fmt::format("TF_CONFIG: the tasks of '{}' must be a list of addresses", job), where);
    if (!tasks.items.empty()) jobs.emplace_back(job, int64_t(tasks.items.size()));
  }
  std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
    return std::pair(place_of_job(a.first), a.first) < std::pair(place_of_job(b.first), b.first);
  });
  return jobs;
}

}  // namespace

Cluster::Cluster(std::vector<std::pair<std::string, int64_t>> jobs, Where where) : jobs_(std::move(jobs)) {
  int64_t tasks = 0;
  const int64_t me = rank(where);
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const auto& [job, count] = jobs_[i];
    if (count < 1) fail(cluster_op, fmt::format("'{}' has {} tasks and must have 1 or more", job, count), where);
    for (size_t k = 0; k < i; ++k)
      if (jobs_[k].first == job) fail(cluster_op, fmt::format("the job '{}' stands there twice", job), where);
    if (me >= tasks && me < tasks + count) job_ = job, task_ = me - tasks;
    tasks += count;
  }
  if (tasks != distribute::size(where))
    fail(cluster_op,
         fmt::format("the cluster has {} task{} and the program {} rank{}. start it with mpirun -n {}", tasks,
                     tasks == 1 ? "" : "s", distribute::size(where), distribute::size(where) == 1 ? "" : "s", tasks),
         where);
}

Cluster Cluster::from_tf_config(Where where) {
  const char* text = std::getenv("TF_CONFIG");
  if (!text || !*text) return Cluster({{"worker", distribute::size(where)}}, where);
  const JsonValue config = JsonReader(text, where).all();
  Cluster cluster(jobs_of(config, where), where);
  const JsonValue* task = config.find("task");
  const JsonValue *type = task ? task->find("type") : nullptr, *index = task ? task->find("index") : nullptr;
  const auto differs = [](const JsonValue* v, const std::string& mine) { return v && v->text != mine; };
  if (differs(type, cluster.job_) || differs(index, std::to_string(cluster.task_)))
    fail(cluster_op,
         fmt::format("TF_CONFIG says that this is {} {}, and rank {} is {} {}. leave 'task' out: which task a rank has "
                     "follows from its number",
                     type ? type->text : "a task", index ? index->text : "", distribute::rank(where), cluster.job_,
                     cluster.task_),
         where);
  return cluster;
}

std::string Cluster::name() const { return fmt::format("/job:{}/task:{}", job_, task_); }

bool Cluster::has(const std::string& job) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& j) { return j.first == job; });
}

bool Cluster::is_chief() const {
  if (has("chief") || has("master")) return (job_ == "chief" || job_ == "master") && task_ == 0;
  return job_ == "worker" && task_ == 0;
}

int64_t Cluster::rank_of(const std::string& job, int64_t task, Where where) const {
  int64_t first = 0;
  for (const auto& [name, count] : jobs_) {
    if (name == job && task >= 0 && task < count) return first + task;
    first += count;
  }
  fail(cluster_op, fmt::format("there is no task {} of a job '{}'", task, job), where);
}

int64_t Cluster::rank_of(const std::string& name, Where where) const {
  const std::string_view job_begin = "/job:", task_begin = "/task:";
  const size_t task_at = name.find(task_begin);
  int64_t task = -1;
  if (name.starts_with(job_begin) && task_at != name.npos) {
    const char* const number = name.data() + task_at + task_begin.size();
    const auto [end, error] = std::from_chars(number, name.data() + name.size(), task);
    if (error == std::errc() && (*end == '\0' || std::string_view(end).starts_with("/device:")))
      return rank_of(name.substr(job_begin.size(), task_at - job_begin.size()), task, where);
  }
  fail(cluster_op, fmt::format("'{}' is no name such as /job:worker/task:1 or /job:worker/task:1/device:cpu:0", name),
       where);
}

bool Cluster::is_here(const std::string& name, Where where) const { return rank_of(name, where) == rank(where); }

Tensor Cluster::run_on(const std::string& name, const Callback<Tensor()>& f, Where where) const {
  constexpr std::string_view op = "Cluster::run_on";
  CallerScope caller(where, "Cluster::run_on");
  if (!executing_eagerly()) fail(op, "a traced function is the same on all ranks. call this outside of it", where);
  const int64_t root = rank_of(name, where);
  const size_t device_at = name.find("/device:");
  const Device device = device_at == name.npos ? Device() : Device(name.substr(device_at), where);
  Tensor result;
  std::vector<int64_t> spec(size_t(2 + max_tensor_axes));
  if (rank(where) == root) {
    const WithDevice there(device, where);
    result = f().to(Device()).contiguous();
    spec[0] = int64_t(result.dtype()), spec[1] = int64_t(result.shape().size());
    for (size_t d = 0; d < result.shape().size(); ++d) spec[2 + d] = result.shape()[d];
    static const bool logs = settings::logs("placement");
    if (logs)
      std::fprintf(stderr, "rill: %s: %s on %s\n", place_of(where).c_str(), to_string(result.spec()).c_str(),
                   name.c_str());
  }
  spec = broadcast(tensor(spec), root, {}, where).to_vector<int64_t>();
  Shape shape;
  for (int64_t d = 0; d < spec[1]; ++d) shape.push_back(spec[size_t(2 + d)]);
  if (!result.defined())
    result = DType(spec[0]) == DType::string ? tensor(std::vector<std::string>(size_t(int64_t(shape.numel()))), shape)
                                             : zeros(shape, {.dtype = DType(spec[0])});
  return broadcast(result, root, {}, where);
}

Group Cluster::group(const std::string& job, Where where) const {
  std::vector<int64_t> ranks;
  for (const auto& [name, count] : jobs_)
    for (int64_t i = 0; name == job && i < count; ++i) ranks.push_back(rank_of(job, i, where));
  if (ranks.empty()) fail(cluster_op, fmt::format("there is no job '{}'", job), where);
  return Group(ranks, where);
}

Group Cluster::training(Where where) const {
  std::vector<int64_t> ranks;
  for (const auto& [name, count] : jobs_)
    for (int64_t i = 0; (name == "chief" || name == "master" || name == "worker") && i < count; ++i)
      ranks.push_back(rank_of(name, i, where));
  if (ranks.empty()) fail(cluster_op, "there is neither a chief nor a worker", where);
  return Group(ranks, where);
}

}  // namespace rill::distribute
