// Hyperparameters as the bytes that TensorBoard's hparams plugin keeps in a summary's metadata.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "rill/summary.h"

namespace rill::summary {

std::string start_content(const std::map<std::string, HParamValue>& values, const std::string& trial);
std::string end_content(bool success);
// Throws rill::Error where the values of one are of several kinds.
std::string experiment_content(const std::vector<HParamInfo>& hparams, const std::vector<MetricInfo>& metrics,
                               const Where& where);

}  // namespace rill::summary
