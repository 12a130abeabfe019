// The task of each rank: TensorFlow's jobs (chief, worker, ps, evaluator) and tasks, which together are the ranks in
// order.
//
//   distribute::Cluster cluster({{"chief", 1}, {"worker", 2}, {"evaluator", 1}});  // mpirun -n 4
//   if (cluster.job() == "evaluator") return evaluate();
//   distribute::GradientTape tape({.group = cluster.training()});
//
// or, if TF_CONFIG describes it as for TensorFlow, Cluster::from_tf_config(). Its addresses are not used: MPI starts
// and connects the ranks.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "rill/distribute/session.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

class Cluster {
 public:
  // Jobs and their numbers of tasks, in the order of the ranks. Throws unless there are as many tasks as ranks.
  explicit Cluster(std::vector<std::pair<std::string, int64_t>> jobs, Where where = Where::current());
  // From the environment variable TF_CONFIG: ranks are chief (or master), workers, ps, evaluators, then others by name.
  // All are workers if it is not set. If it names a task too, throws unless that is this rank's.
  static Cluster from_tf_config(Where where = Where::current());

  // This rank's: "worker", 1, and as TensorFlow names it, "/job:worker/task:1".
  const std::string& job() const& { return job_; }
  std::string job() const&& { return job_; }
  int64_t task() const { return task_; }
  std::string name() const;
  // Whether this is the rank that writes checkpoints: the chief (or master) or, if there is none, worker 0.
  bool is_chief() const;

  // Throws where there is no such task.
  int64_t rank_of(const std::string& job, int64_t task, Where where = Where::current()) const;
  // By TensorFlow's names: "/job:worker/task:1" or "/job:worker/task:1/device:cpu:0".
  int64_t rank_of(const std::string& name, Where where = Where::current()) const;
  // Whether that is this rank.
  bool is_here(const std::string& name, Where where = Where::current()) const;
  // Runs f on the rank and device of that name, and returns its result on all ranks, which must all call this;
  // TensorFlow's `with tf.device(name)`. RILL_LOG=placement logs each call on stderr. Not inside `function`.
  Tensor run_on(const std::string& name, const Callback<Tensor()>& f, Where where = Where::current()) const;
  // The ranks of a job. Throws if it has none.
  Group group(const std::string& job, Where where = Where::current()) const;
  // The chief (or master) and the workers: those who train together.
  Group training(Where where = Where::current()) const;
  bool has(const std::string& job) const;

 private:
  std::vector<std::pair<std::string, int64_t>> jobs_;
  std::string job_;
  int64_t task_ = 0;
};

}  // namespace rill::distribute

#pragma GCC visibility pop
