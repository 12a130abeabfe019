// What most sources of librill_models include, compiled once: rill's ops, besides what pch/library.h has. (Sources of
// librill_io have functions of other libraries beside them, whose names they share.)
#include "library.h"

#include <filesystem>
#include <map>
#include <set>

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
