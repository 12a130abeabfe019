// What most sources of librill_io and librill_models include, compiled once: rill's ops, besides what pch/library.h
// has. Sources include it themselves as well, which a build with -Db_pch=false shows (.ci/run has one).
#include "library.h"

#include <filesystem>
#include <map>
#include <set>

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
