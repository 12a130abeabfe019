// HParamsPluginData filled; see hparams.h and tensorboard/plugins/hparams/summary_v2.py.
#include "rill/serialize/tensorboard/hparams.h"

#include <chrono>

#include "plugins.pb.h"
#include "rill/serialize/messages.h"

namespace rill::summary {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

proto::PluginValue to_value(const HParamValue& value) {
  proto::PluginValue p;
  if (const bool* b = std::get_if<bool>(&value.get())) p.set_bool_value(*b);
  else if (const double* d = std::get_if<double>(&value.get())) p.set_number_value(*d);
  else p.set_string_value(std::get<std::string>(value.get()));
  return p;
}

proto::HParamInfo::DataType kind_of(const HParamValue& value) {
  switch (value.get().index()) {
    case 0: return proto::HParamInfo::DATA_TYPE_BOOL;
    case 1: return proto::HParamInfo::DATA_TYPE_FLOAT64;
  }
  return proto::HParamInfo::DATA_TYPE_STRING;
}

}  // namespace

std::string start_content(const std::map<std::string, HParamValue>& values, const std::string& trial) {
  proto::HParamsPluginData data;
  auto& start = *data.mutable_session_start_info();
  for (const auto& [name, value] : values) (*start.mutable_hparams())[name] = to_value(value);
  start.set_group_name(trial);
  start.set_start_time_secs(now());
  return bytes_of(data);
}

std::string end_content(bool success) {
  proto::HParamsPluginData data;
  data.mutable_session_end_info()->set_status(success ? 1 : 2);
  data.mutable_session_end_info()->set_end_time_secs(now());
  return bytes_of(data);
}

std::string experiment_content(const std::vector<HParamInfo>& hparams, const std::vector<MetricInfo>& metrics,
                               const Where& where) {
  proto::HParamsPluginData data;
  auto& experiment = *data.mutable_experiment();
  experiment.set_time_created_secs(now());
  for (const HParamInfo& h : hparams) {
    proto::HParamInfo& info = *experiment.add_hparam_infos();
    info.set_name(h.name);
    info.set_description(h.description);
    if (h.interval) {
      info.set_type(proto::HParamInfo::DATA_TYPE_FLOAT64);
      info.mutable_domain_interval()->set_min_value(h.interval->first);
      info.mutable_domain_interval()->set_max_value(h.interval->second);
    }
    if (h.interval && !h.values.empty())
      fail("summary::Writer", "the hyperparameter '" + h.name + "' has values and an interval. give one of the two",
           where);
    for (const HParamValue& v : h.values) {
      if (kind_of(v) != kind_of(h.values[0]))
        fail("summary::Writer", "the values of the hyperparameter '" + h.name + "' are of several kinds", where);
      info.set_type(kind_of(v));
      *info.mutable_domain_discrete()->add_values() = to_value(v);
    }
  }
  for (const MetricInfo& m : metrics) {
    proto::MetricInfo& info = *experiment.add_metric_infos();
    info.mutable_name()->set_tag(m.tag);
    info.set_display_name(m.name);
  }
  return bytes_of(data);
}

}  // namespace rill::summary
